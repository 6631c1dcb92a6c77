#include "launch/run/chat/console.h"

#include <array>
#include <cerrno>
#include <clocale>
#include <cstdio>
#include <histedit.h>
#include <poll.h>
#include <system_error>
#include <unistd.h>
#include <utility>

#include "launch/run/signals.h"
#include "model/tokenizer/utf8.h"
#include "runtime/error.h"

namespace trireme {
namespace {

constexpr int kPollMs = 100, kKeptLines = 1000;

/// Waits for input. Returns false if a signal came.
bool wait_for_input(const std::function<void()>& waiting) {
    for (;;) {
        if (remembered_signal() != 0) return false;
        waiting();
        pollfd poll = {.fd = STDIN_FILENO, .events = POLLIN, .revents = 0};
        const int ready = ::poll(&poll, 1, kPollMs);
        if (ready > 0) return true;
        require(ready == 0 || errno == EINTR, Exit::kIo, "stdin: {}", std::generic_category().message(errno));
    }
}

}  // namespace

struct Console::Editor {
    EditLine* line = nullptr;
    ::History* history = nullptr;
    const char* prompt = "";
    const std::function<void()>* waiting = nullptr;
    bool signal = false;

    Editor() : line(el_init("trireme", stdin, stdout, stderr)), history(history_init()) {
        require(line != nullptr && history != nullptr, Exit::kOs, "the line editor cannot be started");
        HistEvent event = {};
        ::history(history, &event, H_SETSIZE, kKeptLines);
        ::history(history, &event, H_SETUNIQUE, 1);
        el_set(line, EL_CLIENTDATA, this);
        el_set(line, EL_EDITOR, "emacs");
        el_set(line, EL_SIGNAL, 0);
        el_set(line, EL_HIST, ::history, history);
        el_set(line, EL_PROMPT, &Editor::show);
        el_set(line, EL_GETCFN, &Editor::next);
        el_source(line, nullptr);  // ~/.editrc
    }
    ~Editor() {
        el_end(line);
        history_end(history);
    }
    Editor(const Editor&) = delete;
    Editor& operator=(const Editor&) = delete;

    static Editor& of(EditLine* line) {
        void* data = nullptr;
        el_get(line, EL_CLIENTDATA, &data);
        return *static_cast<Editor*>(data);
    }
    static char* show(EditLine* line) { return const_cast<char*>(of(line).prompt); }
    /// Reads a character: 1, 0 at the end of the input, -1 for a signal or an error.
    static int next(EditLine* line, wchar_t* to) {
        Editor& editor = of(line);
        std::string bytes;
        while (bytes.size() < 4) {
            if (!wait_for_input(*editor.waiting)) {
                editor.signal = true;
                return -1;
            }
            char byte = 0;
            const ssize_t n = ::read(STDIN_FILENO, &byte, 1);
            if (n < 0 && errno == EINTR) continue;
            if (n <= 0) return static_cast<int>(n);
            bytes += byte;
            if (utf8_length(bytes) == 0) continue;
            *to = static_cast<wchar_t>(utf8_code_point(bytes));
            return 1;
        }
        *to = L'\uFFFD';
        return 1;
    }
    void keep(const std::string& text) {
        HistEvent event = {};
        ::history(history, &event, H_ENTER, text.c_str());
    }
};

Console::Console() {
    if (::isatty(STDIN_FILENO) != 1 || ::isatty(STDOUT_FILENO) != 1) return;
    std::setlocale(LC_CTYPE, "C.UTF-8");  // libedit's width of characters
    editor_ = std::make_unique<Editor>();
}

Console::~Console() = default;

bool Console::terminal() const {
    return editor_ != nullptr;
}

Console::Line Console::read_one(const char* prompt, const std::function<void()>& waiting) {
    if (editor_) {
        editor_->prompt = prompt;
        editor_->waiting = &waiting;
        editor_->signal = false;
        int n = 0;
        const char* text = el_gets(editor_->line, &n);
        if (text == nullptr || n <= 0) {
            el_reset(editor_->line);
            return {editor_->signal ? End::kSignal : End::kInput, {}};
        }
        std::string line(text, static_cast<size_t>(n));
        while (!line.empty() && (line.back() == '\n' || line.back() == '\r')) line.pop_back();
        if (!line.empty()) editor_->keep(line);
        return {End::kLine, std::move(line)};
    }
    for (size_t searched = 0;;) {
        if (const size_t end = read_.find('\n', searched); end != std::string::npos) {
            Line line = {End::kLine, read_.substr(0, end)};
            read_.erase(0, end + 1);
            return line;
        }
        searched = read_.size();
        if (!wait_for_input(waiting)) return {End::kSignal, {}};
        std::array<char, 4096> bytes = {};
        const ssize_t n = ::read(STDIN_FILENO, bytes.data(), bytes.size());
        if (n < 0 && errno == EINTR) continue;
        require(n >= 0, Exit::kIo, "stdin: {}", std::generic_category().message(errno));
        if (n == 0) return read_.empty() ? Line{End::kInput, {}} : Line{End::kLine, std::exchange(read_, {})};
        read_.append(bytes.data(), static_cast<size_t>(n));
    }
}

Console::Line Console::read(const char* prompt, const std::function<void()>& waiting) {
    Line line = read_one(prompt, waiting);
    while (line.end == End::kLine && line.text.ends_with('\\')) {
        Line more = read_one(". ", waiting);
        if (more.end == End::kSignal) return more;
        line.text.back() = '\n';
        line.text += more.text;
        if (more.end == End::kInput) return line;
    }
    return line;
}

}  // namespace trireme
