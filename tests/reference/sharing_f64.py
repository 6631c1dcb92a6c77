"""The layer map of a config.json and a prompt's passes over the layers, by definition (LCKV, arXiv 2405.10637 and
2410.14442) and independent of the engine. `s` (sliding windows) is not supported."""


class Sharing:
    """source[l]: the layer that l reads. strict[l]: True if tokens do not see themselves in l. owners: layers that are
    read."""

    def __init__(self, source, strict, passes):
        self.source, self.strict, self.passes = source, strict, passes
        self.owners = sorted(set(source))

    def readers(self, owner):
        return [layer for layer, source in enumerate(self.source) if source == owner]

    def blocks(self):
        """(layers, True if they take repeated passes), in order. If a layer reads a later one, all layers up to the
        last one that any of them reads take repeated passes."""
        blocks, first = [], 0
        while first < len(self.source):
            layer = last = first
            while layer <= last:
                last = max(last, self.source[layer])
                layer += 1
            blocks.append((range(first, layer), last > first))
            first = layer
        return blocks


def sharing(config):
    """Sharing of a config.json: LCKV's, or that of a model whose layers read their own KV."""
    count = config["num_hidden_layers"]
    if config.get("model_type") != "lckv-llama":
        return Sharing(list(range(count)), [False] * count, 1)
    text = config.get("layer_types") or "_".join(map(str, range(count)))
    source = [int(item) for item in text.split("_")]
    if len(source) != count or not all(0 <= layer < count for layer in source):
        raise ValueError(f"layer_types {text!r} of {count} layers")
    nowhere = config.get("force_nodiag", False)
    strict = [nowhere or above > layer for layer, above in enumerate(source)]
    return Sharing(source, strict, config.get("forward_passes", 7) + config.get("backward_passes", 2))
