"""Writes spec/vectors/take-over: what a removed holder of a key can forge, one attempt per file.

The attacker had a key of the vault, and kept everything that it opened: the header and the replica file of that time, the seed of
the device, the epoch key, the id key. The key was removed since. The attacker can read the current header, like everyone. Everything
here is made from that and from spec/1-keys.md alone, with the functions of keys.py; no code is shared with the Rust implementation.

    python tools/vectors/take_over.py

state.json holds the vault: the current header as lines, the current replica file, the metadata key, the key file of its owner.
Every other file is one attempt:
    spec      the sentence that forbids it
    expect    "ok" if it changes nothing; else the message of the refusal
    why       a description of the attempt
    header    edits of the lines of the header, as in spec/vectors/keys; null if the header stays
    files     further files that the attacker puts into the folder
"""
import copy, difflib, json, pathlib

from blake3 import blake3

import keys
from keys import Principal, b64, commitment, derive, drawn, encode, grant, printed, record, seal_record, slot

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "spec" / "vectors" / "take-over"
FOREIGN = "older or foreign header"
EDITED = "the header was edited"


def replica(vault, epoch, epoch_key, id_key, device, metadata_key, form, name, said_epoch=None, drawn_in=None):
    instance = drawn("instance", 16)
    drawn_in = epoch if drawn_in is None else drawn_in
    clear = instance + device.seed + metadata_key + (drawn_in.to_bytes(4, "little") if form == 2 else b"")
    # Earlier versions named records by the id key.    [2.34]
    naming = id_key if form == 1 else derive("record naming", epoch_key)
    values = {"format": form, "vault": vault.hex(), "instance": instance.hex(),
              "epoch": epoch if said_epoch is None else said_epoch,
              "sealed": b64(seal_record(epoch_key, naming, 9, drawn("salt " + name, 32), clear))}
    text = json.dumps(values, indent=2)[:-2] + ",\n"
    return text + f'  "checksum": "{blake3(text.encode()).hexdigest()}"\n}}\n'


def main():
    device, new_device, owner, removed, his = map(
        Principal, ["old device", "new device", "owner", "removed holder", "his own"])
    id_key, nonce = drawn("take-over id key", 32), drawn("take-over nonce", 32)
    epoch_keys = [drawn("take-over epoch 0", 32), drawn("take-over epoch 1", 32)]
    # What he draws for epochs of his own.
    his_key = drawn("his epoch key", 32)
    metadata_key = drawn("take-over metadata key", 80)
    owner_file, removed_file = drawn("owner's key file", 32), drawn("removed key file", 32)

    def begin(epoch, key):
        return [3, epoch, commitment(nonce, epoch, key, id_key)]

    def granted(epoch, key, members, name=""):
        return [grant(vault, epoch, member, key, id_key, f"{name} {epoch} {number}")
                for number, member in enumerate(members)]

    genesis, vault = record(0, nonce, device, [device.add(1), owner.add(2), removed.add(2), begin(0, epoch_keys[0])])
    removal, removal_id = record(
        1, vault, device, [[2, removed.id], [2, device.id], new_device.add(1), begin(1, epoch_keys[1])])
    owner_slot = slot("owner", "key-file", derive("slot key file", owner_file), owner, vault)
    removed_slot = slot("removed", "key-file", derive("slot key file", removed_file), removed, vault)

    def header(generation, chain, slots, grants):
        return {"format": 1, "flags": [], "vault": vault.hex(), "generation": generation, "suite": 1,
                "membership": [b64(made) for made in chain], "slots": slots, "grants": grants}

    old_grants = granted(0, epoch_keys[0], [device, owner, removed], "old")
    old = header(1, [genesis], [owner_slot, removed_slot], old_grants)
    now = header(2, [genesis, removal], [owner_slot], [old_grants[1]] + granted(0, epoch_keys[0], [new_device], "now")
                 + granted(1, epoch_keys[1], [owner, new_device], "now"))
    old_replica = replica(vault, 0, epoch_keys[0], id_key, device, metadata_key, 1, "old replica")
    now_replica = replica(vault, 1, epoch_keys[1], id_key, new_device, metadata_key, 2, "replica of now")
    text, old_text = encode(now, epoch_keys[1]), encode(old, epoch_keys[0])
    now_mac = json.loads(text)["mac"]
    lines = text.split("\n")

    FOLDER.mkdir(parents=True, exist_ok=True)
    for stale in FOLDER.glob("*.json"):
        stale.unlink()

    def write(name, value):
        (FOLDER / (name + ".json")).write_text(json.dumps(value, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")

    write("state", {"lines": lines, "replica": now_replica, "metadata_key": metadata_key.hex(), "vault": vault.hex(),
                    "owner": "strongroom-key-file-1:" + printed(owner_file) + "\n",
                    "removed": "strongroom-key-file-1:" + printed(removed_file) + "\n"})

    def case(name, spec, expect, why, forged=None, files=None):
        edits = None
        if forged is not None:
            new = forged.split("\n")
            matched = difflib.SequenceMatcher(None, lines, new, autojunk=False).get_opcodes()
            edits = [[a, b - a, new[c:d]] for tag, a, b, c, d in reversed(matched) if tag != "equal"]
        write(name, {"spec": spec, "expect": expect, "why": why, "header": edits, "files": files or {}})

    def altered(edit):
        """The header of now, altered under the MAC that it had: he has no key for another."""
        values = copy.deepcopy(now)
        edit(values)
        return encode(values, None, now_mac)

    def fork(generation, chain, grants, key=his_key):
        return encode(header(generation, chain, [owner_slot, removed_slot], grants), key)

    # (a), (b): signing on from the chain of now
    his_begin = begin(2, his_key)
    signed = {
        "device": (device, [his.add(1), his_begin]), "device-alone": (device, [his.add(1)]),
        "device-key": (device, [his.add(2)]), "device-epoch": (device, [his_begin]), "slot": (removed, [his.add(1)]),
    }
    for name, (author, changes) in signed.items():
        made, _ = record(2, removal_id, author, changes)
        values = header(3, [genesis, removal, made], [owner_slot],
                        now["grants"] + granted(2, his_key, [owner, new_device, his], "his"))
        case("next-by-" + name, "1.4.5", "membership record 2 is forged", "the next record, signed by who was retired",
             encode(values, his_key))

    # (c): forks from before the removal
    first, first_id = record(1, vault, device, [his.add(1), begin(1, his_key)])
    second, second_id = record(2, first_id, his, [[2, device.id], begin(2, his_key)])
    by_slot, _ = record(1, vault, removed, [his.add(1)])
    fork_grants = granted(0, epoch_keys[0], [owner, removed, his], "fork") + granted(1, his_key, [owner, removed, his], "fork")
    case("fork", "1.8.1", EDITED, "another record in the place of the removal", fork(1000, [genesis, first], fork_grants))
    # Of the epoch of the replica file it has another key, so that file is the first that does not fit.
    case("fork-longer", "1.8.1", "does not belong to this vault", "and one more",
         fork(1000, [genesis, first, second], fork_grants + granted(2, his_key, [owner, removed, his], "fork")))
    case("fork-by-slot", "1.9.7", FOREIGN, "a device added by his slot",
         fork(9, [genesis, by_slot], granted(0, epoch_keys[0], [owner, removed, his, device], "slot"), epoch_keys[0]))
    case("fork-with-its-replica", "1.9.7", EDITED, "the fork beside the replica file of its time",
         fork(1000, [genesis, first], old_grants + granted(1, his_key, [device, owner, removed, his], "beside")),
         {"replica.json": old_replica})

    # (d): the old header
    case("old-header", "1.9.7", "is older than", "as it was, with its replica file", old_text, {"replica.json": old_replica})
    raised = encode(old | {"generation": 1000}, epoch_keys[0])
    case("old-header-raised", "1.9.7", FOREIGN, "under a higher generation and a MAC of his", raised, {"replica.json": old_replica})
    case("old-header-as-high", "1.9.7", FOREIGN, "under the generation of now",
         encode(old | {"generation": 2}, epoch_keys[0]), {"replica.json": old_replica})

    # (e): grants
    noise = b64(drawn("noise", 1200))

    def with_noise(epoch, member):
        def edit(values):
            for made in values["grants"]:
                if (made["epoch"], made["principal"]) == (epoch, member.id.hex()):
                    made["sealed"] = noise
        return edit

    def without(epoch, member):
        return lambda values: values.update(
            grants=[made for made in values["grants"] if (made["epoch"], made["principal"]) != (epoch, member.id.hex())])

    for epoch in (0, 1):
        case(f"grant-noise-{epoch}", "1.5.4", f"the keys stored for epoch {epoch} are not the vault", "noise for the owner",
             altered(with_noise(epoch, owner)))
        case(f"grant-dropped-{epoch}", "1.9.5", f"the keys of epoch {epoch} are missing", "none for the owner",
             altered(without(epoch, owner)))
        case(f"grant-noise-device-{epoch}", "1.9.6", "edited by somebody without the keys", "noise for the device",
             altered(with_noise(epoch, new_device)))
    case("grant-doubled", "1.7.1", "grant", "one of the owner's twice",
         altered(lambda values: values["grants"].append(values["grants"][0])))
    case("grant-for-him", "1.9.6", "edited by somebody without the keys", "one of epoch 0 for a principal of his",
         altered(lambda values: values["grants"].extend(granted(0, epoch_keys[0], [his], "him"))))
    case("grant-of-his-key", "1.5.4", "the keys stored for epoch 1 are not the vault", "his key as that of epoch 1",
         altered(lambda values: (without(1, owner)(values), values["grants"].extend(granted(1, his_key, [owner], "key")))))
    case("slot-put-back", "1.9.6", "edited by somebody without the keys", "his slot beside the owner's",
         altered(lambda values: values["slots"].append(removed_slot)))

    # (f): the chain
    def chain(*made):
        return altered(lambda values: values.update(membership=[b64(one) for one in made]))

    case("chain-doubled", "1.4.4", "membership record 2 is forged", "every record twice", chain(genesis, removal, genesis, removal))
    case("chain-cut", "1.5.4", "the keys stored for epoch 1 are not the vault", "the removal is missing", chain(genesis))
    case("chain-reordered", "1.4.2", "membership record 0 is forged", "the removal first", chain(removal, genesis))
    other, _ = record(0, drawn("another nonce", 32), his, [his.add(1), owner.add(2), begin(0, his_key)])
    case("chain-foreign", "1.9.2", "belong to another vault", "that of a vault of his", chain(other))

    # (g), (h): old files put back
    case("old-replica", "1.8.6", "no longer a member of the vault", "beside the header of now", files={"replica.json": old_replica})
    case("old-replica-everywhere", "1.8.6", "no longer a member of the vault", "in every place where one may be", files={
        "replica.json": old_replica, "replica.json.next": old_replica, "replica.json.saved": old_replica})
    case("old-replica-dressed", "1.8.1", "does not belong to this vault", "the old device as if sealed in epoch 1", files={
        "replica.json": replica(vault, 0, epoch_keys[0], id_key, device, metadata_key, 2, "dressed", said_epoch=1)})
    # Sealed with the keys that he has; the metadata key seems to be drawn after he was removed.
    for drawn_in in (1, 2**32 - 1):
        later = replica(vault, 0, epoch_keys[0], id_key, device, metadata_key, 2, f"drawn in {drawn_in}", drawn_in=drawn_in)
        case(f"old-replica-drawn-in-{drawn_in}", "1.8.1", "does not belong to this vault",
             f"the old device with a metadata key of epoch {drawn_in}, in every place", files={
                 "replica.json": later, "replica.json.next": later, "replica.json.saved": later})
    case("old-next", "1.8.5", "ok", "the old one as that of a change cut off", files={"replica.json.next": old_replica})
    case("old-copies", "7.1.1", "ok", "the old second copies",
         files={"vault.json.saved": old_text, "replica.json.saved": old_replica})
    case("forked-copies", "7.1.1", "ok", "second copies of a fork",
         files={"vault.json.saved": raised, "replica.json.saved": old_replica, "replica.json.next": old_replica})


if __name__ == "__main__":
    main()
