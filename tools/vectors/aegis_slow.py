"""AEGIS-256 with 128-bit tags (RFC 10032), slow and simple, written from the specification; it shares no code with the product."""

C0 = bytes.fromhex("000101020305080d1522375990e97962")
C1 = bytes.fromhex("db3d18556dc22ff12011314273b528dd")


def times_two(value):
    """Multiplication by x in AES's field."""
    return (value << 1) ^ 0x11B if value & 0x80 else value << 1


def times(left, right):
    product = 0
    while right:
        if right & 1:
            product ^= left
        left, right = times_two(left), right >> 1
    return product


def substitution(value):
    """AES's S-box: the inverse in the field (0 stays), then the affine map."""
    inverse = next((other for other in range(256) if times(value, other) == 1), 0)
    rotated = [((inverse << turn) | (inverse >> (8 - turn))) & 0xFF for turn in range(5)]
    return rotated[0] ^ rotated[1] ^ rotated[2] ^ rotated[3] ^ rotated[4] ^ 0x63


S_BOX = bytes(substitution(value) for value in range(256))
TWICE = bytes(times(2, value) for value in range(256))


def xor(*blocks):
    result = blocks[0]
    for block in blocks[1:]:
        result = bytes(left ^ right for left, right in zip(result, block, strict=True))
    return result


def both(left, right):
    return bytes(one & other for one, other in zip(left, right, strict=True))


def aes_round(block, round_key):
    """SubBytes, ShiftRows, MixColumns, AddRoundKey on 16 bytes, column by column."""
    shifted = [S_BOX[block[(index + 4 * (index % 4)) % 16]] for index in range(16)]
    mixed = bytearray(16)
    for column in range(0, 16, 4):
        every = shifted[column] ^ shifted[column + 1] ^ shifted[column + 2] ^ shifted[column + 3]
        for row in range(4):
            this, below = shifted[column + row], shifted[column + (row + 1) % 4]
            mixed[column + row] = this ^ every ^ TWICE[this ^ below]
    return xor(bytes(mixed), round_key)


class State:
    def __init__(self, key, nonce):
        assert len(key) == len(nonce) == 32
        k0, k1, n0, n1 = key[:16], key[16:], nonce[:16], nonce[16:]
        self.s = [xor(k0, n0), xor(k1, n1), C1, C0, xor(k0, C0), xor(k1, C1)]
        for _ in range(4):
            for block in (k0, k1, xor(k0, n0), xor(k1, n1)):
                self.update(block)

    def update(self, block):
        s = self.s
        self.s = [aes_round(s[5], xor(s[0], block))] + [aes_round(s[at - 1], s[at]) for at in range(1, 6)]

    def stream(self):
        return xor(self.s[1], self.s[4], self.s[5], both(self.s[2], self.s[3]))

    def tag(self, aad_len, text_len):
        lengths = (8 * aad_len).to_bytes(8, "little") + (8 * text_len).to_bytes(8, "little")
        block = xor(self.s[3], lengths)
        for _ in range(7):
            self.update(block)
        return xor(*self.s)


def padded(data):
    """16-byte blocks; the last is filled with zeros."""
    return [data[at:at + 16].ljust(16, b"\0") for at in range(0, len(data), 16)]


class AEGIS256:
    """The same face as the AEADs of the package `cryptography`."""

    def __init__(self, key):
        self.key = key

    def encrypt(self, nonce, text, aad):
        state = State(self.key, nonce)
        for block in padded(aad):
            state.update(block)
        sealed = b""
        for block in padded(text):
            sealed += xor(block, state.stream())
            state.update(block)
        return sealed[:len(text)] + state.tag(len(aad), len(text))


def check():
    """Known answers of FIPS 197 (a full round, appendix B, round 1) and of the RFC's appendix."""
    assert S_BOX[:4] == bytes.fromhex("637c777b")
    start = bytes.fromhex("193de3bea0f4e22b9ac68d2ae9f84808")
    key = bytes.fromhex("a0fafe1788542cb123a339392a6c7605")
    assert aes_round(start, key) == bytes.fromhex("a49c7ff2689f352b6b5bea43026a5049")
    key = bytes.fromhex("1001" + 30 * "00")
    nonce = bytes.fromhex("100002" + 29 * "00")
    for text, aad, sealed in (
        (16 * "00", "", "754fc3d8c973246dcc6d741412a4b236" "3fe91994768b332ed7f570a19ec5896e"),
        ("", "", "e3def978a0f054afd1e761d7553afba3"),
    ):
        found = AEGIS256(key).encrypt(nonce, bytes.fromhex(text), bytes.fromhex(aad))
        assert found.hex() == sealed, found.hex()


check()
