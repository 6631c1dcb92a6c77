"""Which layer's keys and values each layer reads, from a config.json, and how a prompt passes over the layers: by
definition (LCKV, arXiv 2405.10637 and 2410.14442), and independent of the engine. `s` (sliding windows) is not served."""


class Sharing:
    """source[l]: the layer that l reads. strict[l]: tokens do not see themselves in l. owners: layers that are read."""

    def __init__(self, source, strict, passes):
        self.source, self.strict, self.passes = source, strict, passes
        self.owners = sorted(set(source))

    def readers(self, owner):
        return [layer for layer, source in enumerate(self.source) if source == owner]

    def blocks(self):
        """(layers, whether they are passed over repeatedly), in order: where a layer reads a later one, all layers up
        to the last one that any of them reads are."""
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
    """Of a config.json: of LCKV's, or of a model whose layers read their own."""
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
