#include "model/files/json.h"

#include <algorithm>
#include <string>
#include <vector>

#include "model/files/shown.h"
#include "runtime/error.h"
#include "runtime/log.h"

namespace trireme {
namespace {

/// Builds the value as nlohmann's own DOM parser does, but refuses duplicate keys and values beyond the limits.
class BoundedSax final : public nlohmann::json_sax<Json> {
  public:
    BoundedSax(std::string_view what, std::string_view text, JsonLimits limits)
        : what_(what), text_(text), limits_(limits) {}

    Json result;

    bool null() override { return put(nullptr); }
    bool boolean(bool v) override { return put(v); }
    bool number_integer(number_integer_t v) override { return put(v); }
    bool number_unsigned(number_unsigned_t v) override { return put(v); }
    bool number_float(number_float_t v, const string_t&) override { return put(v); }
    bool string(string_t& v) override { return put(std::move(v)); }
    bool binary(binary_t&) override { return false; }
    bool key(string_t& k) override {
        Json& object = *open_.back();
        require(!object.contains(k), Exit::kData, "{}: JSON key '{}' appears twice in one object", what_, shown(k));
        key_ = std::move(k);
        return true;
    }
    bool start_object(size_t) override { return start(Json::object()); }
    bool start_array(size_t) override { return start(Json::array()); }
    bool end_object() override { return end(); }
    bool end_array() override { return end(); }
    bool parse_error(size_t position, const std::string&, const nlohmann::detail::exception& e) override {
        const auto at = text_.substr(0, std::min(position, text_.size()));
        const auto line = 1 + std::count(at.begin(), at.end(), '\n');
        std::string_view why = e.what();  // "[json.exception.<name>.<id>] parse error at <where>: <what is wrong>"
        for (const std::string_view prefix : {"] ", ": "}) {
            const size_t at_prefix = why.find(prefix);
            if (at_prefix != std::string_view::npos) why.remove_prefix(at_prefix + 2);
        }
        fail(Exit::kData, "{}: not valid JSON at line {} (byte {}): {}", what_, line, position, shown(why));
    }

  private:
    template <class T>
    bool put(T&& v) {
        slot() = std::forward<T>(v);
        return true;
    }
    bool start(Json&& container) {
        require(static_cast<int>(open_.size()) < limits_.depth, Exit::kData, "{}: JSON is nested deeper than {} levels",
                what_, limits_.depth);
        Json& s = slot();
        s = std::move(container);
        open_.push_back(&s);
        return true;
    }
    bool end() {
        open_.pop_back();
        return true;
    }
    /// Returns where to put the next value. Pointers into arrays remain valid: no parent grows while a child is open.
    Json& slot() {
        require(++values_ <= limits_.values, Exit::kData, "{}: more than {} JSON values", what_, limits_.values);
        if (open_.empty()) return result;
        Json& parent = *open_.back();
        if (parent.is_array()) return parent.emplace_back();
        return parent[std::move(key_)];
    }

    std::string_view what_, text_;
    JsonLimits limits_;
    size_t values_ = 0;
    std::vector<Json*> open_;
    std::string key_;
};

/// Returns the text with quotes around NaN, Infinity and -Infinity outside of strings.
std::string quoted_by_python(std::string_view text, std::string_view what) {
    std::string out;
    bool inside = false;
    for (size_t i = 0; i < text.size();) {
        size_t length = 1;
        if (inside) {
            if (text[i] == '\\') length = std::min<size_t>(2, text.size() - i);
            if (text[i] == '"') inside = false;
        } else if (text[i] == '"') {
            inside = true;
        } else {
            for (const std::string_view word : {"NaN", "Infinity", "-Infinity"}) {
                if (!text.substr(i).starts_with(word)) continue;
                out += fmt::format("\"{}\"", word);
                i += word.size();
                length = 0;
                break;
            }
        }
        out += text.substr(i, length);
        i += length;
    }
    if (out.size() != text.size()) {
        log::warn("{}: holds NaN or Infinity, which are no JSON; they are an error only where the model needs them",
                  what);
    }
    return out;
}

}  // namespace

Json parse_json(std::string_view text, std::string_view what, JsonLimits limits) {
    require(text.size() <= limits.bytes, Exit::kData, "{}: {} bytes of JSON, at most {} are read", what, text.size(),
            limits.bytes);
    std::string quoted;
    if (limits.by_python && (text.find("NaN") != text.npos || text.find("Infinity") != text.npos)) {
        quoted = quoted_by_python(text, what);
        text = quoted;
    }
    BoundedSax sax(what, text, limits);
    Json::sax_parse(text.begin(), text.end(), &sax);
    return std::move(sax.result);
}

}  // namespace trireme
