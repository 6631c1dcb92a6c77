#include "launch/run/suffix_corpus.h"

#include <span>

#include "launch/run/data_set.h"
#include "model/files/store/digest.h"

namespace trireme {

std::shared_ptr<const SuffixCorpus> read_suffix_corpus(const std::string& path, const Tokenizer* tokenizer,
                                                       int64_t vocab) {
    constexpr int32_t kBetweenTexts = -1;  // no token has this id
    require(path != "-", Exit::kConfig, "--suffix-corpus -: want a file or a folder; every rank reads it");
    std::vector<int32_t> all;
    for_texts(path, {}, [&](const DataText& text) {
        for (const int64_t id : ids_of(text, tokenizer, /*add_special=*/false)) {
            require(id >= 0 && id < vocab, Exit::kConfig,
                    "--suffix-corpus {}: id {}, want one of the model's {} tokens", text.where, id, vocab);
            all.push_back(static_cast<int32_t>(id));
        }
        require(std::ssize(all) <= kMostCorpus, Exit::kConfig,
                "--suffix-corpus {}: more than {} tokens up to here; name fewer texts", text.where, kMostCorpus);
        all.push_back(kBetweenTexts);
        return true;
    });
    auto corpus = std::make_shared<SuffixCorpus>();
    for (const int32_t id : all) corpus->text.append(id);
    corpus->digest = hex(XXH3_64bits(all.data(), all.size() * sizeof(int32_t)));
    return corpus;
}

}  // namespace trireme
