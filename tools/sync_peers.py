"""The compared programs, which transfer the same files over the same line: Strongroom, one plain object, rclone, restic, syncthing."""

import filecmp
import json
import os
import shutil
import subprocess
import xml.etree.ElementTree as xml

from object_store import SIGNED
from sync_line import FAR, NEAR, Cost, compare, peak_mib, until

CURL = ["curl", "-sSf", "-H", f"Authorization: {SIGNED}", "-H", "Expect:"]


class Strongroom:
    """The first push of a vault, and a new device."""

    def __init__(self, world, files, number):
        self.world, self.files, self.vault, self.other = world, files, world.place / f"vault{number}", world.place / f"clone{number}"
        self.url = world.url(world.bucket())
        world.init(self.vault)
        world.strongroom("remote", "add", self.vault, "store", self.url)
        self.make_known()
        world.strongroom("put", "-q", files, f"{self.vault}:/")

    def make_known(self):
        pass

    def up(self):
        return self.world.measured_strongroom("push", "-q", self.vault)

    def down(self):
        return self.world.measured_strongroom("clone", "-q", self.url, self.other)

    def check(self, made):
        back = self.world.place / "back"
        back.mkdir()
        self.world.strongroom("get", "-q", f"{self.other}:/{self.files.name}", back)
        compare(made, back / self.files.name)
        for vault in (self.vault, self.other):
            shutil.rmtree(vault)


class Known(Strongroom):
    """A push and a pull between two devices that have synced before."""

    def make_known(self):
        self.world.strongroom("push", "-q", self.vault)
        super().down()
        for each in (self.other, self.vault, self.other):
            self.world.strongroom("sync", "-q", each)
        self.world.strongroom("device", "accept", self.vault)

    def down(self):
        return self.world.measured_strongroom("pull", "-q", self.other)


class Plain:
    """One object with the same bytes: what the line and the store can do."""

    def __init__(self, world, files, number):
        self.world, self.files = world, files
        self.one, self.other = world.place / "plain", world.place / "plain-back"
        with open(self.one, "wb") as out:
            for path in sorted(files.rglob("*.bin")):
                out.write(path.read_bytes())
        self.url = f"http://{FAR}:{world.store.port}/{world.bucket()}/v/one"

    def up(self):
        return self.world.measured(*CURL, "-T", self.one, self.url)

    def down(self):
        return self.world.measured(*CURL, "-o", self.other, self.url)

    def check(self, made):
        if not filecmp.cmp(self.one, self.other, shallow=False):
            raise SystemExit("the plain object differs")


class Rclone:
    crypt = False

    def __init__(self, world, files, number):
        self.world, self.files, self.back = world, files, world.place / "rclone-back"
        bucket = world.bucket()
        world.environment |= {
            "RCLONE_CONFIG": str(world.place / "rclone.conf"),
            "RCLONE_CONFIG_STORE_TYPE": "s3",
            "RCLONE_CONFIG_STORE_PROVIDER": "Other",
            "RCLONE_CONFIG_STORE_ENV_AUTH": "true",
            "RCLONE_CONFIG_STORE_ENDPOINT": f"http://{FAR}:{world.store.port}",
            "RCLONE_CONFIG_STORE_REGION": "us-east-1",
        }
        self.to = f"store:{bucket}/files"
        if self.crypt:
            password = world.run("rclone", "obscure", "secret").split()[-1]
            world.environment |= {"RCLONE_CONFIG_CRYPT_TYPE": "crypt", "RCLONE_CONFIG_CRYPT_REMOTE": self.to, "RCLONE_CONFIG_CRYPT_PASSWORD": password}
            self.to = "crypt:"

    def up(self):
        return self.world.measured("rclone", "copy", self.files, self.to)

    def down(self):
        return self.world.measured("rclone", "copy", self.to, self.back)

    def check(self, made):
        compare(made, self.back)


class RcloneCrypt(Rclone):
    crypt = True


class Restic:
    def __init__(self, world, files, number):
        self.world, self.files, self.back, self.cache = world, files, world.place / "restic-back", world.place / f"restic-cache{number}"
        repository = f"s3:http://{FAR}:{world.store.port}/{world.bucket()}/r"
        world.environment |= {"RESTIC_PASSWORD": "secret", "RESTIC_REPOSITORY": repository, "RESTIC_CACHE_DIR": str(self.cache)}
        world.run("restic", "init")

    def up(self):
        return self.world.measured("restic", "backup", "-q", self.files)

    def down(self):
        shutil.rmtree(self.cache)
        return self.world.measured("restic", "restore", "-q", "latest", "--target", self.back)

    def check(self, made):
        compare(made, self.back / self.files.relative_to("/"))


TOOLS = {"Strongroom": (Strongroom, None), "Strongroom, both devices known": (Known, None), "one plain object": (Plain, "curl"), "rclone": (Rclone, "rclone"), "rclone crypt": (RcloneCrypt, "rclone"), "restic": (Restic, "restic")}


class Syncthing:
    """Two of them, one beside the store: what is written at one end until the other has it."""

    def __init__(self, world):
        self.world, self.ends, self.processes, self.keys = world, [], [], {}
        for name, host, within in (("near", NEAR, []), ("far", FAR, world.line.within)):
            home, files = world.place / f"syncthing-{name}", world.place / f"syncthing-{name}-files"
            files.mkdir()
            world.run("syncthing", "generate", "--home", home)
            device = world.run("syncthing", "--home", home, "--device-id").split()[-1]
            self.ends.append((home, files, host, within, device))
        # One process each, which ends when it is killed: without this it starts another one that does the work.
        environment = {**world.environment, "STMONITORED": "yes"}
        for home, files, host, within, _ in self.ends:
            self.configure(home, files, host)
            with open(home / "log", "wb") as log:
                self.processes.append(subprocess.Popen([*within, "syncthing", "--home", str(home), "--no-browser"], env=environment, stdout=log, stderr=log))
        far = self.ends[1][4]
        until("syncthing's ends see each other", lambda: self.answer("/rest/system/connections").get("connections", {}).get(far, {}).get("connected"), 0.2)

    def configure(self, home, files, host):
        """Each knows the other's address, and asks nobody else."""
        path = home / "config.xml"
        tree = xml.parse(path)
        root, options = tree.getroot(), tree.getroot().find("options")
        set_to = {"listenAddress": f"tcp://{host}:22000", "urAccepted": "-1", "autoUpgradeIntervalH": "0"}
        set_to |= dict.fromkeys(("globalAnnounceEnabled", "localAnnounceEnabled", "relaysEnabled", "natEnabled", "crashReportingEnabled"), "false")
        for name, value in set_to.items():
            for old in options.findall(name):
                options.remove(old)
            xml.SubElement(options, name).text = value
        for kind in ("folder", "device"):
            for old in root.findall(kind):
                root.remove(old)
        folder = xml.SubElement(root, "folder", id="files", label="files", path=str(files), type="sendreceive", rescanIntervalS="3600", fsWatcherEnabled="false")
        for _, _, at, _, device in self.ends:
            one = xml.SubElement(root, "device", id=device, name=at, compression="metadata")
            xml.SubElement(one, "address").text = f"tcp://{at}:22000"
            xml.SubElement(folder, "device", id=device)
        gui = root.find("gui")
        gui.find("address").text = "127.0.0.1:8384"
        self.keys[host] = gui.find("apikey").text
        tree.write(path)

    def answer(self, path, method="GET"):
        command = ["curl", "-sS", "-X", method, "-H", f"X-API-Key: {self.keys[NEAR]}", f"http://127.0.0.1:8384{path}"]
        text = subprocess.run(command, capture_output=True, text=True).stdout
        return json.loads(text) if text.startswith("{") else {}

    def carry(self, files, made):
        near, far = self.ends[0][1] / files.name, self.ends[1][1] / files.name
        staged = self.world.place / "staged"
        shutil.copytree(files, staged)
        os.rename(staged, near)
        cost = Cost(self.world)
        self.answer("/rest/db/scan?folder=files", "POST")

        def is_whole():
            there = (path.name for path in far.rglob("*.bin"))
            return sum(1 for name in there if not name.startswith((".syncthing", "~syncthing"))) == len(made)

        until("syncthing has carried everything", is_whole, 0.05)
        cost = cost.end(max(peak_mib(process.pid) for process in self.processes))
        compare(made, far)
        return cost

    def stop(self):
        for process in self.processes:
            process.kill()
            process.wait()
        for left in self.world.place.glob("syncthing-*"):
            shutil.rmtree(left)
