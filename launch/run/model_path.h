#pragma once
/// Paths of models: a folder or a file, or a model in the cache of Hugging Face's tools. Nothing is downloaded.

#include <string>

namespace trireme {

/// Returns the path of a model's files. `name`: a path; a folder of that cache (models--ORG--NAME), which becomes its
/// snapshot; or ORG/NAME, if there is no such path and the cache has the model. The cache is HF_HUB_CACHE, else
/// HF_HOME/hub, else ~/.cache/huggingface/hub. The snapshot is that of refs/main, else the only one. Other names are
/// returned as they are. Errors: Exit::kNoInput for a model of the cache without a snapshot, and for ORG/NAME of which
/// nothing is there.
std::string model_path(const std::string& name);

}  // namespace trireme
