package io.strongroom;

import java.nio.file.PathMatcher;
import java.util.regex.Pattern;
import java.util.regex.PatternSyntaxException;

/** Turns the patterns of {@link java.nio.file.FileSystem#getPathMatcher} into regular expressions. */
final class Glob {
    /** What has a meaning in a regular expression and none in a glob. */
    private static final String MEANING = ".^$+()|\\{}[]*?";

    private final String glob;
    private final StringBuilder regex = new StringBuilder();
    private int at;

    private Glob(String glob) {
        this.glob = glob;
    }

    static PathMatcher matcher(String syntaxAndPattern) {
        int colon = syntaxAndPattern.indexOf(':');
        if (colon <= 0) {
            throw new IllegalArgumentException("a pattern must begin with glob: or regex:");
        }
        String syntax = syntaxAndPattern.substring(0, colon);
        String pattern = syntaxAndPattern.substring(colon + 1);
        Pattern compiled;
        if (syntax.equalsIgnoreCase("glob")) {
            compiled = Pattern.compile(new Glob(pattern).toRegex(), Pattern.DOTALL);
        } else if (syntax.equalsIgnoreCase("regex")) {
            compiled = Pattern.compile(pattern);
        } else {
            throw new UnsupportedOperationException("the syntax " + syntax + " is not known: glob or regex");
        }
        return path -> compiled.matcher(path.toString()).matches();
    }

    private String toRegex() {
        boolean inGroup = false;
        while (at < glob.length()) {
            char one = glob.charAt(at++);
            switch (one) {
                case '\\':
                    literal(next("a \\ at the end"));
                    break;
                case '*':
                    if (at < glob.length() && glob.charAt(at) == '*') {
                        at++;
                        regex.append(".*");
                    } else {
                        regex.append("[^/]*");
                    }
                    break;
                case '?':
                    regex.append("[^/]");
                    break;
                case '[':
                    brackets();
                    break;
                case '{':
                    if (inGroup) {
                        throw wrong("a group within a group");
                    }
                    regex.append("(?:(?:");
                    inGroup = true;
                    break;
                case '}':
                    regex.append(inGroup ? "))" : "\\}");
                    inGroup = false;
                    break;
                case ',':
                    regex.append(inGroup ? ")|(?:" : ",");
                    break;
                default:
                    literal(one);
            }
        }
        if (inGroup) {
            throw wrong("a group without its }");
        }
        return regex.toString();
    }

    private void brackets() {
        regex.append("(?!/)[");
        if (at < glob.length() && (glob.charAt(at) == '!' || glob.charAt(at) == '^')) {
            regex.append(glob.charAt(at) == '!' ? "^" : "\\^");
            at++;
        }
        int begin = at;
        while (true) {
            char one = next("brackets without their ]");
            if (one == ']') {
                if (at == begin + 1) {
                    throw wrong("brackets with nothing in them");
                }
                regex.append(']');
                return;
            }
            if (one == '/') {
                throw wrong("a / in brackets");
            }
            if (one == '-' && at < glob.length() && glob.charAt(at) != ']' && regex.charAt(regex.length() - 1) != '[') {
                regex.append('-');
            } else {
                if ("\\[]&^-".indexOf(one) >= 0) {
                    regex.append('\\');
                }
                regex.append(one);
            }
        }
    }

    private char next(String orElse) {
        if (at >= glob.length()) {
            throw wrong(orElse);
        }
        return glob.charAt(at++);
    }

    private void literal(char one) {
        if (MEANING.indexOf(one) >= 0) {
            regex.append('\\');
        }
        regex.append(one);
    }

    private PatternSyntaxException wrong(String what) {
        return new PatternSyntaxException(what, glob, at - 1);
    }
}
