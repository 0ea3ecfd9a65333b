package io.strongroom;

import java.io.IOException;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Set;
import java.util.WeakHashMap;

/** When a program ends, closes the vaults that it left open, so that all its changes are durable. */
final class AtExit {
    private static final Set<Vault> OPEN = Collections.newSetFromMap(new WeakHashMap<>());

    static {
        Runtime.getRuntime().addShutdownHook(new Thread(AtExit::close, "strongroom-exit"));
    }

    private AtExit() {}

    static void watch(Vault vault) {
        synchronized (OPEN) {
            OPEN.add(vault);
        }
    }

    static void forget(Vault vault) {
        synchronized (OPEN) {
            OPEN.remove(vault);
        }
    }

    private static void close() {
        List<Vault> open;
        synchronized (OPEN) {
            open = new ArrayList<>(OPEN);
        }
        for (Vault vault : open) {
            vault.files().deleteAtExit();
        }
        // Clients before owners, which wait for them.
        List<Vault> owners = new ArrayList<>();
        for (Vault vault : open) {
            try {
                if (vault.isOwner()) {
                    owners.add(vault);
                } else {
                    vault.close();
                }
            } catch (IOException | RuntimeException nobodyHears) {
                // The program has ended.
            }
        }
        for (Vault vault : owners) {
            try {
                vault.close();
            } catch (IOException | RuntimeException nobodyHears) {
                // The same.
            }
        }
    }
}
