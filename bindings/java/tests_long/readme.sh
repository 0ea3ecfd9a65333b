#!/usr/bin/env bash
# Follows the README as a new user: the commands of its `sh` blocks in a checkout, then a Maven project with its `xml` block and its `java` blocks.
# The user's Maven repository is not changed: this run has one of its own, in the given folder.
set -euo pipefail
place="${1:?a folder}"
here="$(cd "$(dirname "$0")/.." && pwd)"
readme="$here/README.md"
mvn="${MVN:-mvn}"

block() { # kind
    awk -v fence="\`\`\`$1" '$0 == fence { inside = 1; next } /^```/ { inside = 0 } inside' "$readme"
}

# `mvn` as the README types it.
mkdir -p "$place/bin" "$place/project/src/main/java"
printf '#!/bin/sh\nexec "%s" -Dmaven.repo.local="%s" "$@"\n' "$(command -v "$mvn")" "$place/repository" >"$place/bin/mvn"
chmod +x "$place/bin/mvn"
# And `make`, of which a new user's first run installs what is missing on the machine.
printf '#!/bin/sh\nexec tools/bindings_java.sh build\n' >"$place/bin/make"
chmod +x "$place/bin/make"
(cd "$here/../.." && PATH="$place/bin:$PATH" MVN="$(command -v "$mvn")" bash -euo pipefail -c "$(block sh)")

{
    block java | grep '^import '
    echo 'public class Main { public static void main(String[] arguments) throws Exception {'
    block java | grep -v '^import '
    echo '} }'
} >"$place/project/src/main/java/Main.java"
{
    echo '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
    echo '<groupId>user</groupId><artifactId>project</artifactId><version>1</version>'
    echo '<properties><maven.compiler.release>11</maven.compiler.release><project.build.sourceEncoding>UTF-8</project.build.sourceEncoding></properties><dependencies>'
    block xml
    echo '</dependencies></project>'
} >"$place/project/pom.xml"
cd "$place/project"
"$place/bin/mvn" --batch-mode --no-transfer-progress --quiet org.apache.maven.plugins:maven-compiler-plugin:3.16.0:compile
jar="$place/repository/io/strongroom/strongroom/0.1.0/strongroom-0.1.0.jar"
mkdir "$place/run"
cd "$place/run"
HOME="$place" "${JAVA_HOME:+$JAVA_HOME/bin/}java" -cp "$place/project/target/classes:$jar" Main >said
grep -q 'the vault is closed' said
echo "bindings: the README of Java works as it is written"
