package io.strongroom;

import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.nio.file.FileSystem;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.WatchKey;
import java.nio.file.WatchService;
import java.nio.file.spi.FileSystemProvider;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import org.junit.jupiter.api.Assumptions;
import org.junit.jupiter.api.DynamicTest;

/**
 * A case for each method of a class of {@code java.nio}: reflection lists the methods, and one without a case fails. A case runs on the disk
 * first, which shows that it asks for what Java promises, and then on a vault, unless it says that it is about vaults only.
 */
final class Contract {
    /** A case: {@code root} is an empty directory, {@code call} the method that it is about. */
    interface Case {
        void run(Call call, Path root) throws Exception;
    }

    /** The method of a case. */
    static final class Call {
        private final Method method;
        private int count;

        private Call(Method method) {
            this.method = method;
        }

        /** Calls the method; an array is one argument. */
        Object on(Object target, Object... arguments) throws Exception {
            count++;
            try {
                return method.invoke(target, arguments);
            } catch (InvocationTargetException thrown) {
                if (thrown.getCause() instanceof Exception) {
                    throw (Exception) thrown.getCause();
                }
                throw (Error) thrown.getCause();
            }
        }
    }

    /** How long a test waits for what is certain to come, before it fails. */
    static final Duration SOON = Duration.ofMinutes(1);

    private final Class<?> type;
    private final Map<String, Case> cases = new TreeMap<>();
    /** The cases that run on a vault only. */
    private final Set<String> ofVaults = new HashSet<>();
    /** The methods that not every Java has. */
    private final Set<String> newer = new HashSet<>();

    Contract(Class<?> type) {
        this.type = type;
    }

    /** The case of a method, which is named like {@code copy(Path,Path,CopyOption[])}. */
    Contract method(String name, Case body) {
        assertTrue(cases.put(name, body) == null, name + " has two cases");
        return this;
    }

    /** The same, on a vault only. */
    Contract ofVaults(String name, Case body) {
        ofVaults.add(name);
        return method(name, body);
    }

    /** The same, of a method that Java 11 has not. */
    Contract newer(String name, Case body) {
        newer.add(name);
        return method(name, body);
    }

    /** One test for each method that Java has here, and for each case. */
    List<DynamicTest> tests(Vault vault, Path place) {
        Map<String, Method> methods = methods();
        Set<String> names = new TreeSet<>(methods.keySet());
        names.addAll(cases.keySet());
        List<DynamicTest> tests = new ArrayList<>();
        for (String name : names) {
            tests.add(DynamicTest.dynamicTest(type.getSimpleName() + "." + name, () -> check(name, methods.get(name), vault, place)));
        }
        return tests;
    }

    private Map<String, Method> methods() {
        Map<String, Method> found = new TreeMap<>();
        for (Method method : type.getMethods()) {
            boolean isOwn = method.getDeclaringClass() != Object.class && !method.isSynthetic();
            if (isOwn && !Modifier.isStatic(method.getModifiers())) {
                String parameters = Arrays.stream(method.getParameterTypes()).map(Class::getSimpleName).collect(Collectors.joining(","));
                found.put(method.getName() + "(" + parameters + ")", method);
            }
        }
        return found;
    }

    private void check(String name, Method method, Vault vault, Path place) throws Exception {
        Case body = cases.get(name);
        assertNotNull(body, "Java has this method, and it has no case");
        if (method == null && newer.contains(name)) {
            Assumptions.abort("this Java has no such method");
        }
        assertNotNull(method, "there is a case, and Java has no such method");
        if (!ofVaults.contains(name)) {
            run(body, method, Files.createTempDirectory(place, "disk"));
        }
        Vaults.empty(vault);
        run(body, method, Files.createDirectory(vault.path("/root")));
    }

    private static void run(Case body, Method method, Path root) throws Exception {
        Call call = new Call(method);
        try {
            body.run(call, root);
        } catch (Exception | AssertionError error) {
            throw new AssertionError("on " + root.getFileSystem().provider().getScheme(), error);
        }
        assertTrue(call.count > 0, "the case does not call its method");
    }

    // ---- what cases need

    static FileSystem files(Path root) {
        return root.getFileSystem();
    }

    static FileSystemProvider provider(Path root) {
        return files(root).provider();
    }

    static boolean isVault(Path root) {
        return root instanceof VaultPath;
    }

    /** What watches; on a vault one that looks only when a case has it look, so that none depends on the time. */
    static WatchService watch(Path root) throws Exception {
        return isVault(root) ? watchThatWaits(files(root)) : files(root).newWatchService();
    }

    /** The same, of a vault. */
    static VaultWatchService watchThatWaits(FileSystem vault) {
        return new VaultWatchService((VaultFileSystem) vault, TimeUnit.DAYS.toMillis(1));
    }

    /** The next key, which is there already, or comes soon: the kernel reports when it likes to. */
    static WatchKey next(WatchService watch) throws InterruptedException {
        WatchKey key = watch.poll(SOON.toMillis(), TimeUnit.MILLISECONDS);
        assertNotNull(key, "nothing was reported in " + SOON);
        return key;
    }

    /** A file in {@code root}. */
    static Path file(Path root, String name, String content) throws Exception {
        return Files.write(root.resolve(name), content.getBytes());
    }

    static String content(Path path) throws Exception {
        return new String(Files.readAllBytes(path));
    }
}
