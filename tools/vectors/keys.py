"""Writes spec/vectors/keys: a vault header made from spec/1-keys.md alone, and one file per fault. Also writes spec/vectors/remote-form,
the same for the form of the header for remotes.

A slow second implementation: it shares only the specification with the Rust code. Needs the Python packages
`blake3`, `cryptography`, `argon2-cffi` and `kyber-py` (any virtual environment will do). The output is the same on every run.

    python tools/vectors/keys.py

base.json holds the header as lines, and its values. Every other file is a change of those lines:
    spec      the sentence that the case is about
    expect    ok, or the expected error
    why       a description of the change
    edits     [[first line, number of removed lines, [inserted lines]], ...], from the last to the first
    secret    kind and text
    last_seen the newest generation seen before, or null

In remote-form, base.json holds the lines of the form and those of its vault.json; there is no last_seen. If the form of a case belongs
to another vault.json, the case has edits of those lines too.
"""
import base64, copy, difflib, hashlib, hmac, json, pathlib, unicodedata

from argon2.low_level import Type, hash_secret_raw
from blake3 import blake3
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from kyber_py.ml_kem import ML_KEM_768

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "spec" / "vectors" / "keys"
REMOTE_FORM = FOLDER.parent / "remote-form"
FORMAT = 1
DATE = f"strongroom format {FORMAT} 2026-11-21 "
LATIN = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"


def drawn(name, length):
    """Bytes in the place of random ones, the same on every run."""
    return blake3(b"strongroom key vectors " + name.encode()).digest(length)


def derive(purpose, secret):
    return blake3(secret, derive_key_context=DATE + purpose).digest()


def raw(key):
    return key.public_bytes(Encoding.Raw, PublicFormat.Raw)


# 1.2 canonical CBOR

def head(major, value):
    for limit, code, width in ((24, None, 0), (1 << 8, 24, 1), (1 << 16, 25, 2), (1 << 32, 26, 4), (1 << 64, 27, 8)):
        if value < limit:
            first = value if code is None else code
            return bytes([major << 5 | first]) + (value.to_bytes(width, "big") if width else b"")


def cbor(value):
    if isinstance(value, int):
        return head(0, value)
    if isinstance(value, bytes):
        return head(2, len(value)) + value
    return head(4, len(value)) + b"".join(map(cbor, value))


# 1.3 principals

class Principal:
    def __init__(self, name):
        self.seed = drawn("seed of " + name, 32)
        self.signing = Ed25519PrivateKey.from_private_bytes(derive("principal ed25519", self.seed))
        expanded = hashlib.shake_256(derive("principal x-wing", self.seed)).digest(96)
        self.lattice_public, self.lattice_secret = ML_KEM_768.key_derive(expanded[:64])
        self.curve = X25519PrivateKey.from_private_bytes(expanded[64:])
        self.ed = raw(self.signing.public_key())
        self.kem = self.lattice_public + raw(self.curve.public_key())
        assert len(self.kem) == 1216
        self.id = derive("membership principal id", self.ed + self.kem)

    def add(self, role):
        return [1, role, self.ed, self.kem]


# 1.4 membership

def record(sequence, link, author, changes):
    body = cbor([FORMAT, sequence, link, author.id, changes])
    identity = derive("membership record id", body)
    signature = author.signing.sign((DATE + "membership signature").encode() + identity)
    return cbor([body, signature]), identity


# 1.5 epochs and grants

def commitment(nonce, epoch, epoch_key, id_key):
    return derive("epoch commitment", nonce + epoch.to_bytes(4, "little") + epoch_key + id_key)


def hkdf_extract(salt, secret):
    return hmac.new(salt or bytes(32), secret, hashlib.sha256).digest()


def hkdf_expand(key, info, length):
    out, block, count = b"", b"", 1
    while len(out) < length:
        block = hmac.new(key, block + info + bytes([count]), hashlib.sha256).digest()
        out, count = out + block, count + 1
    return out[:length]


def hpke_seal(kem, info, clear, name, aad=b""):
    """Encapsulation and ciphertext with its tag: HPKE in base mode, to an X-Wing public key."""
    random = drawn("encapsulation " + name, 64)
    lattice_secret, lattice_text = ML_KEM_768._encaps_internal(kem[:1184], random[:32])
    ephemeral = X25519PrivateKey.from_private_bytes(random[32:])
    curve_text = raw(ephemeral.public_key())
    curve_secret = ephemeral.exchange(X25519PublicKey.from_public_bytes(kem[1184:]))
    shared = hashlib.sha3_256(
        lattice_secret + curve_secret + curve_text + kem[1184:] + b"\\.//^\\").digest()
    suite = b"HPKE" + bytes.fromhex("647a00010002")

    def extract(salt, label, secret):
        return hkdf_extract(salt, b"HPKE-v1" + suite + label + secret)

    def expand(key, label, info, length):
        return hkdf_expand(key, length.to_bytes(2, "big") + b"HPKE-v1" + suite + label + info, length)

    context = b"\0" + extract(b"", b"psk_id_hash", b"") + extract(b"", b"info_hash", info)
    secret = extract(shared, b"secret", b"")
    key, nonce = expand(secret, b"key", context, 32), expand(secret, b"base_nonce", context, 12)
    return lattice_text + curve_text + AESGCM(key).encrypt(nonce, clear, aad)


def grant(vault, epoch, member, epoch_key, id_key, name):
    info = (DATE + "grant").encode() + vault + epoch.to_bytes(4, "little") + member.id
    sealed = hpke_seal(member.kem, info, epoch_key + id_key, name)
    return {"epoch": epoch, "principal": member.id.hex(), "sealed": b64(sealed)}


# 1.6 slots; the sealed record is that of spec/2-block.md

def seal_record(sealing, naming, kind, salt, clear):
    context = b"strongroom\0\0" + FORMAT.to_bytes(2, "little") + kind.to_bytes(2, "little") + bytes(16) + salt
    identity = blake3(context + clear, key=naming).digest()
    secret = blake3((1).to_bytes(2, "little") + identity, key=derive("block sealing", sealing)).digest(44)
    nonce = bytearray(secret[32:])
    nonce[11] ^= 1
    return salt + identity + AESGCM(secret[:32]).encrypt(bytes(nonce), clear, b"")


def slot(name, kind, key, principal, vault, argon2=None, vault_in_payload=None):
    clear = principal.seed + (vault_in_payload or vault)
    sealed = seal_record(derive("slot sealing", key), derive("slot naming", key), 8, drawn("salt " + name, 32), clear)
    made = {"id": drawn("slot " + name, 8).hex(), "kind": kind, "label": name, "created": 1_700_000_000,
            "principal": principal.id.hex()}
    if argon2:
        made["argon2"] = argon2
    return made | {"sealed": b64(sealed)}


def passphrase_key(text, argon2):
    stretched = hash_secret_raw(unicodedata.normalize("NFC", text).encode(), bytes.fromhex(argon2["salt"]),
                                argon2["passes"], argon2["memory_kib"], argon2["lanes"], 32, Type.ID, 0x13)
    return derive("slot passphrase", stretched)


def printed(secret):
    def digits(bits):
        bits += "0" * (-len(bits) % 5)
        return "".join(LATIN[int(bits[place:place + 5], 2)] for place in range(0, len(bits), 5))

    def bits(data):
        return "".join(f"{byte:08b}" for byte in data)

    text = digits(bits(secret)) + digits(bits(derive("printed secret checksum", secret))[:20])
    return "-".join(text[place:place + 4] for place in range(0, len(text), 4))


# 1.7 the header file

def b64(data):
    return base64.b64encode(data).decode()


def mac(epoch_key, covered):
    return blake3(covered, key=derive("header mac", epoch_key)).hexdigest()


def encode(values, epoch_key, made_mac=None):
    covered = json.dumps(values, indent=2, ensure_ascii=False)[:-2] + ",\n"
    text = covered + f'  "mac": "{made_mac or mac(epoch_key, covered.encode())}",\n'
    return text + f'  "checksum": "{blake3(text.encode()).hexdigest()}"\n}}\n'


def main():
    device, person, paper, removed, stranger = map(Principal, ["device", "person", "paper", "removed", "stranger"])
    id_key, keys, nonce = drawn("id key", 32), [drawn("epoch 0", 32), drawn("epoch 1", 32)], drawn("nonce", 32)
    argon2 = {"memory_kib": 65536, "passes": 3, "lanes": 1, "salt": drawn("argon2 salt", 16).hex()}
    code, key_file = drawn("recovery code", 20), drawn("key file", 32)

    begin = [[3, epoch, commitment(nonce, epoch, keys[epoch], id_key)] for epoch in (0, 1)]
    genesis, vault = record(0, nonce, device, [device.add(1), person.add(2), paper.add(2), begin[0]])
    first, first_id = record(1, vault, device, [removed.add(2)])
    second, second_id = record(2, first_id, device, [[2, removed.id], begin[1]])
    members = {"device": device, "person": person, "paper": paper}
    grants = [grant(vault, epoch, member, keys[epoch], id_key, f"{epoch} {name}")
              for epoch in (0, 1) for name, member in members.items()]
    file_key = derive("slot key file", key_file)
    removed_slot = slot("removed", "key-file", file_key, removed, vault)
    base = {
        "format": FORMAT, "flags": [], "vault": vault.hex(), "generation": 3, "suite": 1,
        "membership": [b64(genesis), b64(first), b64(second)],
        "slots": [slot("person", "passphrase", passphrase_key("caf\u00e9 au lait", argon2), person, vault, argon2),
                  slot("paper", "recovery-code", derive("slot recovery code", code), paper, vault)],
        "grants": grants,
    }
    text = encode(base, keys[1])
    base_mac = json.loads(text)["mac"]
    lines = text.split("\n")
    by_code = {"kind": "recovery-code", "text": printed(code)}
    by_file = {"kind": "key-file", "text": "strongroom-key-file-1:" + printed(key_file) + "\n"}
    # The accent as a character of its own: NFC joins it to the letter.
    by_passphrase = {"kind": "passphrase", "text": "cafe\u0301 au lait"}

    for folder in (FOLDER, REMOTE_FORM):
        folder.mkdir(parents=True, exist_ok=True)
        for old in folder.glob("*.json"):
            old.unlink()

    def write(name, value, folder=FOLDER):
        (folder / (name + ".json")).write_text(json.dumps(value, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")

    def difference(old, new):
        matched = difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
        return [[a, b - a, new[c:d]] for tag, a, b, c, d in reversed(matched) if tag != "equal"]

    naming = blake3(b"strongroom\0\0" + bytes([FORMAT, 0, 1, 0]) + bytes(48) + b"text", key=id_key).hexdigest()
    write("base", {"lines": lines, "vault": vault.hex(), "generation": 3, "epochs": [0, 1], "slots": ["person", "paper"],
                   "id_of_text": naming})

    def case(name, spec, expect, why, changed=text, secret=by_code, last_seen=None):
        edits = difference(lines, changed.split("\n"))
        write(name, {"spec": spec, "expect": expect, "why": why, "edits": edits, "secret": secret, "last_seen": last_seen})

    def changed(edit, key=None):
        """The header after `edit`; with the MAC it had, as whoever has no key must leave it, or one under `key`."""
        values = copy.deepcopy(base)
        values = edit(values) or values
        return encode(values, key, None if key else base_mac)

    def records(*chain):
        return changed(lambda values: values.update(membership=[b64(made) for made in chain]))

    def replaced(old, new):
        assert old in text
        body = text.replace(old, new, 1).rsplit('  "checksum"', 1)[0]
        return body + f'  "checksum": "{blake3(body.encode()).hexdigest()}"\n}}\n'

    case("ok-recovery-code", "1.9", "ok", "as it was made", last_seen=3)
    case("ok-passphrase", "1.6.4", "ok", "typed in another normal form", secret=by_passphrase)
    case("ok-typed-loosely", "1.6.9", "ok", "lower case, spaces, letters for digits",
         secret={"kind": "recovery-code", "text": printed(code).lower().replace("-", "  ").replace("0", "o").replace("1", "l")})
    case("ok-key-file", "1.6.8", "ok", "with one more slot, of a key file",
         changed(lambda values: values.update(
             slots=values["slots"] + [slot("file", "key-file", file_key, paper, vault)]), keys[1]), by_file)
    case("ok-other-layout", "1.7.3", "ok", "other white space, under a MAC over those bytes",
         (lambda body: (lambda with_mac: with_mac + f'  "checksum": "{blake3(with_mac.encode()).hexdigest()}"\n}}\n')(
             body + f'  "mac": "{mac(keys[1], body.encode())}",\n'))(
             text.split('  "mac"')[0].replace('"flags": []', '"flags":    [ ]')))

    case("damaged-digit", "1.7.2", "damaged", "one digit of the generation", text.replace('"generation": 3', '"generation": 2'))
    case("damaged-cut", "1.7.2", "damaged", "the end is missing", text[:-40])
    case("damaged-empty", "1.7.2", "damaged", "nothing is there", "")
    case("format-unknown", "1.7.4", "format", "format 2", replaced('"format": 1', '"format": 2'))
    case("format-earlier", "1.7.4", "format", "format 0", replaced('"format": 1', '"format": 0'))
    case("flag-unknown", "1.7.4", "format", "a flag", replaced('"flags": []', '"flags": ["x"]'))
    case("suite-unknown", "1.7.4", "format", "suite 4", replaced('"suite": 1', '"suite": 4'))
    case("field-unknown", "1.7.4", "format", "a field", replaced('"suite": 1', '"suite": 1, "x": 1'))
    case("argon2-over-ceiling", "1.6.6", "format", "memory of 8 GiB", replaced('"memory_kib": 65536', '"memory_kib": 8388608'))
    case("argon2-under-floor", "1.6.6", "format", "memory of 32 KiB", replaced('"memory_kib": 65536', '"memory_kib": 32'))

    def stretched_head(data):
        return data.replace(b"\x82\x59", b"\x98\x02\x59", 1)

    case("record-not-canonical", "1.2.1", "format", "the head of the first record in a longer form",
         records(stretched_head(genesis), first, second))
    case("record-dropped", "1.4.4", "forged 1", "the second of three", records(genesis, second))
    case("record-reordered", "1.4.4", "forged 1", "the last two changed places", records(genesis, second, first))
    case("record-cut-off", "1.5.4", "grant-forged 1", "the last one, and with it an epoch that was granted", records(genesis, first))
    bad = bytearray(second)
    bad[-1] ^= 1
    case("record-signature", "1.4.6", "forged 2", "the last bit of the signature", records(genesis, first, bytes(bad)))
    case("record-of-a-stranger", "1.4.5", "forged 3", "signed by nobody",
         records(genesis, first, second, record(3, second_id, stranger, [stranger.add(1)])[0]))
    case("record-of-a-slot", "1.4.7", "forged 3", "a slot's principal adds a slot",
         records(genesis, first, second, record(3, second_id, person, [stranger.add(2)])[0]))
    case("record-of-the-retired", "1.4.8", "forged 3", "the removed slot adds a device",
         records(genesis, first, second, record(3, second_id, removed, [stranger.add(1)])[0]))
    case("record-brings-back", "1.4.8", "forged 3", "a device adds the removed slot again",
         records(genesis, first, second, record(3, second_id, device, [removed.add(2)])[0]))
    case("record-without-epoch", "1.4.8", "forged 3", "a slot is retired and no epoch begins",
         records(genesis, first, second, record(3, second_id, device, [[2, paper.id]])[0]))
    case("record-epoch-skipped", "1.4.9", "forged 3", "epoch 3 after epoch 1",
         records(genesis, first, second, record(3, second_id, device, [[3, 3, bytes(32)]])[0]))
    other_genesis, _ = record(0, drawn("other nonce", 32), stranger, [stranger.add(1), paper.add(2), begin[0]])
    case("membership-foreign", "1.9.2", "foreign-membership", "a whole chain of another vault", records(other_genesis))

    wrong = {"kind": "recovery-code", "text": printed(drawn("another code", 20))}
    case("secret-wrong", "1.9.3", "wrong-secret", "another recovery code", secret=wrong)
    case("secret-wrong-passphrase", "1.9.3", "wrong-secret", "another passphrase",
         secret={"kind": "passphrase", "text": "cafe au lait"})
    case("secret-of-no-slot", "1.9.3", "no-slot", "a key file", secret=by_file)

    def swap_slot(made):
        return changed(lambda values: values["slots"].__setitem__(1, made))

    code_key = derive("slot recovery code", code)
    case("slot-foreign", "1.9.3", "foreign-slot", "a payload made for another vault",
         swap_slot(slot("paper", "recovery-code", code_key, paper, vault, vault_in_payload=drawn("other vault", 32))))
    case("slot-put-back", "1.9.4", "slot-not-member", "the removed slot",
         changed(lambda values: values["slots"].append(removed_slot)), by_file)
    case("slot-label", "1.9.6", "header-edited", "a label", changed(lambda values: values["slots"][0].update(label="x")))

    def without(values):
        values["grants"] = [made for made in grants if (made["epoch"], made["principal"]) != (1, paper.id.hex())]
        return values

    def with_grant(epoch, epoch_key, identity):
        made = grant(vault, epoch, paper, epoch_key, identity, "forged")
        return changed(lambda values: without(values)["grants"].append(made))

    case("grant-missing", "1.9.5", "grant-missing 1", "none of the newest epoch", changed(without))
    case("grant-of-an-old-key", "1.5.4", "grant-forged 1", "the key of epoch 0 as that of epoch 1", with_grant(1, keys[0], id_key))
    case("grant-of-another-id-key", "1.5.4", "grant-forged 1", "right epoch key, wrong id key",
         with_grant(1, keys[1], drawn("other", 32)))
    case("mac-of-an-old-epoch", "1.7.3", "header-edited", "made by somebody who was removed", changed(lambda values: None, keys[0]))
    case("generation-raised", "1.9.6", "header-edited", "an old header dressed as a new one",
         changed(lambda values: values.update(generation=9)), last_seen=9)
    case("generation-behind", "1.9.7", "generation-behind", "generation 3 after 4 was seen", last_seen=4)

    # The form for remotes

    def withheld(slots, epoch_key, kind=18, number=FORMAT):
        content = [[bytes.fromhex(made["id"]), made["argon2"]["memory_kib"], made["argon2"]["passes"], made["argon2"]["lanes"],
                    bytes.fromhex(made["argon2"]["salt"]), base64.b64decode(made["sealed"])] for made in slots if "argon2" in made]
        return seal_record(epoch_key, derive("record naming", epoch_key), kind, bytes(32), cbor([number, content]))

    def form(sealed, flags=("withheld",), changes=None):
        values = {"format": FORMAT, "flags": list(flags)} | ({} if changes is None else {"guessable_changes": changes}) | {name: base[name] for name in ("vault", "generation", "suite", "membership")}
        values["slots"] = [{name: value for name, value in made.items() if name not in ("argon2", "sealed") or "argon2" not in made}
                           for made in base["slots"]]
        return values | ({} if sealed is None else {"withheld": b64(sealed)}) | {"grants": grants}

    right = withheld(base["slots"], keys[1])
    form_text = encode(form(right), keys[1])
    form_lines = form_text.split("\n")
    write("base", {"lines": form_lines, "vault_json": lines}, REMOTE_FORM)

    def form_case(name, spec, expect, why, changed=form_text, secret=by_code, vault_json=None):
        edits = difference(form_lines, changed.split("\n"))
        other = {} if vault_json is None else {"vault_json": difference(lines, vault_json.split("\n"))}
        write(name, {"spec": spec, "expect": expect, "why": why, "edits": edits, "secret": secret} | other, REMOTE_FORM)

    def other_slot(**changes):
        return [base["slots"][0] | changes]

    def sealed_case(name, why, sealed):
        form_case(name, "1.7.9", "withheld-forged", why, encode(form(sealed), keys[1]))

    form_case("ok-recovery-code", "1.7.8", "ok", "as it was made")
    form_case("ok-earlier-version", "1.7.7", "ok", "the header as it is, as earlier versions pushed it", text)
    form_case("passphrase", "1.7.7", "withheld", "a passphrase", secret=by_passphrase)
    form_case("secret-wrong", "1.9.3", "wrong-secret", "another recovery code", secret=wrong)
    form_mac = json.loads(form_text)["mac"]
    form_case("mac-wrong", "1.7.8", "header-edited", "a label, by somebody without keys",
              encode(form(right) | {"slots": [made | {"label": "x"} for made in form(right)["slots"]]}, None, form_mac))
    form_case("mac-of-vault-json", "1.7.8", "header-edited", "with the MAC of vault.json", encode(form(right), None, base_mac))
    sealed_case("record-of-an-older-epoch", "sealed under epoch 0", withheld(base["slots"], keys[0]))
    sealed_case("record-of-another-kind", "sealed as a message of a pairing", withheld(base["slots"], keys[1], 17))
    sealed_case("record-of-another-slot", "of a slot with another id", withheld(other_slot(id=drawn("slot other", 8).hex()), keys[1]))
    sealed_case("record-of-no-slot", "of no slot at all", withheld([], keys[1]))
    sealed_case("record-of-two-slots", "of one slot twice", withheld(other_slot() * 2, keys[1]))
    sealed_case("record-of-another-format", "the content says format 2", withheld(base["slots"], keys[1], number=2))
    sealed_case("record-over-ceiling", "memory of 8 GiB", withheld(other_slot(argon2=argon2 | {"memory_kib": 8388608}), keys[1]))
    sealed_case("record-cut", "the last byte is missing", right[:-1])
    sealed_case("record-empty", "no byte of it", b"")
    form_case("flag-missing", "1.7.7", "format", "no flag says that something is withheld", encode(form(right, ()), keys[1]))
    form_case("flag-alone", "1.7.7", "format", "a flag, and nothing that is withheld", encode(form(None), keys[1]))
    form_case("flags-both", "1.7.7", "format", "guessable too", encode(form(right, ("guessable", "withheld")), keys[1]))
    form_case("mixture", "1.7.7", "format", "a slot with its parameters and payload beside the record",
              encode(form(right) | {"slots": base["slots"]}, keys[1]))

    def as_it_is(flags, changes):
        return encode(form(None, flags, changes) | {"slots": base["slots"]}, keys[1])

    def counted(name, why, flags, changes):
        form_case(name, "1.7.6", "format", why, as_it_is(flags, changes))

    form_case("ok-changes-taken-back", "1.7.6", "ok", "it was guessable once", encode(form(right, changes=2), keys[1]), vault_json=as_it_is((), 2))
    form_case("ok-changes-guessable", "1.7.6", "ok", "it is guessable again", as_it_is(("guessable",), 3), by_passphrase,
              as_it_is(("guessable",), 3))
    form_case("ok-guessable", "1.7.6", "ok", "it is guessable", as_it_is(("guessable",), None), by_passphrase, as_it_is(("guessable",), None))
    counted("changes-none", "no change, which nothing has to say", (), 0)
    counted("changes-one", "one change, which the flag says", ("guessable",), 1)
    counted("changes-odd", "an odd number without the flag", (), 3)
    counted("changes-even", "an even number with the flag", ("guessable",), 2)


if __name__ == "__main__":
    main()
