#!/usr/bin/env bash
# Follows the README as a new user: the commands of its `sh` blocks in a checkout, then a Maven project with its `xml` block and its `java` blocks,
# and one with its `kotlin` block.
# The user's Maven repository is not changed: this run has one of its own, in the given folder, and downloads what it needs into that: Maven's
# plugins, the compiler of Kotlin and its library.
set -euo pipefail
place="${1:?a folder}"
here="$(cd "$(dirname "$0")/.." && pwd)"
readme="$here/README.md"
kotlin=2.4.21
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

project="$place/kotlin"
mkdir -p "$project/src/main/kotlin" "$project/run"
block kotlin >"$project/src/main/kotlin/Main.kt"
{
    echo '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
    echo '<groupId>user</groupId><artifactId>kotlin</artifactId><version>1</version>'
    # The compiler runs in Maven, so that no process of it is left.
    echo '<properties><kotlin.compiler.daemon>false</kotlin.compiler.daemon><kotlin.compiler.jvmTarget>11</kotlin.compiler.jvmTarget></properties>'
    echo '<dependencies>'
    block xml
    echo "<dependency><groupId>org.jetbrains.kotlin</groupId><artifactId>kotlin-stdlib</artifactId><version>$kotlin</version></dependency>"
    echo '</dependencies><build><sourceDirectory>src/main/kotlin</sourceDirectory></build></project>'
} >"$project/pom.xml"
cd "$project"
"$place/bin/mvn" --batch-mode --no-transfer-progress --quiet "org.jetbrains.kotlin:kotlin-maven-plugin:$kotlin:compile"
library="$place/repository/org/jetbrains/kotlin/kotlin-stdlib/$kotlin/kotlin-stdlib-$kotlin.jar"
cd run
HOME="$place" "${JAVA_HOME:+$JAVA_HOME/bin/}java" -cp "$project/target/classes:$jar:$library" MainKt >said
grep -qx '\[first.txt\]' said
grep -qx 'no /none' said
echo "bindings: a program in Kotlin uses the jar as the README says"
