"""BLAKE3, written from its paper: slow and simple; it shares no code with the implementations that the product uses.

Takes   bytes, and a key or a context string
Gives   the requested number of hash bytes
"""

MASK = 0xFFFFFFFF
IV = [0x6A09E667, 0xBB67AE85, 0x3C6EF372, 0xA54FF53A, 0x510E527F, 0x9B05688C, 0x1F83D9AB, 0x5BE0CD19]
PERMUTATION = [2, 6, 3, 10, 7, 0, 4, 13, 1, 11, 12, 5, 9, 14, 15, 8]
# Which four words each of the eight mixing steps of a round works on: columns, then diagonals.
STEPS = [(0, 4, 8, 12), (1, 5, 9, 13), (2, 6, 10, 14), (3, 7, 11, 15),
         (0, 5, 10, 15), (1, 6, 11, 12), (2, 7, 8, 13), (3, 4, 9, 14)]

BLOCK, CHUNK = 64, 1024
CHUNK_START, CHUNK_END, PARENT, ROOT = 1, 2, 4, 8
KEYED_HASH, DERIVE_CONTEXT, DERIVE_MATERIAL = 16, 32, 64


def rotate(word, bits):
    return (word >> bits | word << (32 - bits)) & MASK


def words(data):
    return [int.from_bytes(data[at:at + 4], "little") for at in range(0, len(data), 4)]


def compress(chain, block, length, counter, flags):
    """The sixteen words that one 64-byte block makes of a chaining value."""
    state = list(chain) + IV[:4] + [counter & MASK, counter >> 32, length, flags]
    message = words(block.ljust(BLOCK, b"\0"))
    for _ in range(7):
        for step, (a, b, c, d) in enumerate(STEPS):
            for word, left, right in ((message[2 * step], 16, 12), (message[2 * step + 1], 8, 7)):
                state[a] = (state[a] + state[b] + word) & MASK
                state[d] = rotate(state[d] ^ state[a], left)
                state[c] = (state[c] + state[d]) & MASK
                state[b] = rotate(state[b] ^ state[c], right)
        message = [message[at] for at in PERMUTATION]
    return [state[at] ^ state[at + 8] for at in range(8)] + [state[at + 8] ^ chain[at] for at in range(8)]


def chunk_node(key, chunk, number, flags):
    """What the last compression of a chunk is called with."""
    chain = key
    blocks = [chunk[at:at + BLOCK] for at in range(0, len(chunk), BLOCK)] or [b""]
    for index, block in enumerate(blocks):
        block_flags = flags | (CHUNK_START if index == 0 else 0)
        if index == len(blocks) - 1:
            return chain, block, len(block), number, block_flags | CHUNK_END
        chain = compress(chain, block, BLOCK, number, block_flags)[:8]


def node(key, data, first, flags):
    """What the last compression of a subtree is called with; its left side is the largest full power of two."""
    if len(data) <= CHUNK:
        return chunk_node(key, data, first, flags)
    left = CHUNK
    while left * 2 < len(data):
        left *= 2
    chains = [compress(*node(key, part, number, flags))[:8]
              for part, number in ((data[:left], first), (data[left:], first + left // CHUNK))]
    block = b"".join(word.to_bytes(4, "little") for chain in chains for word in chain)
    return key, block, BLOCK, 0, flags | PARENT


def blake3(data, length=32, key=None, flags=0):
    """The hash of `data`, keyed if a key of 32 bytes is given, `length` bytes of it."""
    chain, block, block_length, _, node_flags = node(
        words(key) if key else IV, data, 0, flags | (KEYED_HASH if key and not flags else 0))
    out = b""
    while len(out) < length:
        counter = len(out) // BLOCK
        out += b"".join(word.to_bytes(4, "little")
                        for word in compress(chain, block, block_length, counter, node_flags | ROOT))
    return out[:length]


def derive_key(context, material, length=32):
    """The key that BLAKE3 derives from `material` for the purpose that `context` names."""
    context_key = blake3(context.encode(), 32, flags=DERIVE_CONTEXT)
    return blake3(material, length, key=context_key, flags=DERIVE_MATERIAL)
