"""Converts the matrices of a quantised GGUF to f16 or bf16: the weights that Trireme has in memory, for the peer.

    convert.py IN.gguf f16|bf16 OUT.gguf

Vectors (norms) are unchanged. Values are dequantised and rounded once.
"""

import sys

import numpy as np
from gguf import GGMLQuantizationType, GGUFReader, GGUFValueType, GGUFWriter, LlamaFileType, quants

TYPES = {
    "f16": (GGMLQuantizationType.F16, LlamaFileType.MOSTLY_F16),
    "bf16": (GGMLQuantizationType.BF16, LlamaFileType.MOSTLY_BF16),
}


def copy_metadata(reader: GGUFReader, writer: GGUFWriter) -> None:
    for field in reader.fields.values():
        # The writer adds these fields itself.
        if field.name.startswith("GGUF.") or field.name in ("general.architecture", "general.file_type"):
            continue
        kind = field.types[0]
        element = field.types[-1] if kind == GGUFValueType.ARRAY else None
        writer.add_key_value(field.name, field.contents(), kind, element)


def main(source: str, type_name: str, target: str) -> None:
    tensor_type, file_type = TYPES[type_name]
    reader = GGUFReader(source)
    writer = GGUFWriter(target, reader.fields["general.architecture"].contents())
    writer.add_file_type(file_type)
    copy_metadata(reader, writer)
    for tensor in reader.tensors:
        values = quants.dequantize(tensor.data, tensor.tensor_type).astype(np.float32)
        kind = tensor_type if len(tensor.shape) > 1 else GGMLQuantizationType.F32
        writer.add_tensor(tensor.name, quants.quantize(values, kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    if len(sys.argv) != 4 or sys.argv[2] not in TYPES:
        sys.exit(__doc__)
    main(*sys.argv[1:])
