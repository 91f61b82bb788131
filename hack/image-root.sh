#!/bin/sh
# Creates the root file system of an image from the image that this runs in: its Node, and the Debian packages that are named below.
# Dockerfile.agent and Dockerfile.backend call it. Invariant: an image contains only what is named here. So it has no package manager, no
# perl and no program with the set-user-ID bit, but a shell, coreutils and tar, for `kubectl exec` and `kubectl cp`. Each package keeps
# its copyright file, and its entry in dpkg's list, which scanners read.
#   sh hack/image-root.sh FOLDER
set -eu
root=$1

# The libraries are those that `node`, the engines and these programs are linked with; packages that the base image lacks are skipped.
packages=$(dpkg-query -W -f '${Package}\n' | grep -xE \
  'base-files|ca-certificates|coreutils|dash|findutils|gcc-[0-9]+-base|grep|gzip|libacl1|libatomic1|libattr1|libc-bin|libc6|libgcc-s1|libgmp10|libpcre2-8-0|libselinux1|libstdc\+\+6|sed|tar|tzdata')
# Files that packages do not list, because they were created during the installation or belong to no package.
other_paths='/bin /sbin /lib /lib64 /etc/passwd /etc/group /etc/nsswitch.conf /etc/localtime /etc/timezone /etc/ssl/certs/ca-certificates.crt
  /home/node /usr/local/bin/node /usr/local/LICENSE'
# Manuals, translations, and character set tables that only programs with a locale other than C.UTF-8 read.
left_out='^/usr/share/(bug|doc|info|lintian|locale|man|menu)/|/gconv/'

# /lib/x and /usr/lib/x are the same file; each file is listed once, by the latter name.
paths() {
  for package in $packages; do dpkg -L "$package"; done | grep -vE "$left_out"
  for package in $packages; do printf '%s\n' "/usr/share/doc/$package" "/usr/share/doc/$package/copyright"; done
  printf '%s\n' $other_paths
}
mkdir -p "$root"
paths | sed -E 's,^/(bin|sbin|lib[0-9x]*)/,/usr&,' | sort -u | while read -r path; do
  if [ "$path" != /. ] && { [ -e "$path" ] || [ -L "$path" ]; }; then echo ".$path"; fi
done | tar -C / --create --no-recursion --files-from=- | tar -C "$root" --extract --preserve-permissions
mkdir -p "$root/var/lib/dpkg" "$root/etc/ssl/certs"
# For vmalert, which notifies an Alertmanager over TLS: the official base image has no CA certificates except those inside Node.
authorities=$root/etc/ssl/certs/ca-certificates.crt
[ -e "$authorities" ] || node -p 'require("node:tls").rootCertificates.join("\n")' >"$authorities"
dpkg-query --status $packages >"$root/var/lib/dpkg/status"
ldconfig -r "$root"
rm -rf "$root/var/cache/ldconfig"

# Another base image may link its programs with libraries that are not named above.
ldd "$root"/usr/bin/* "$root"/usr/sbin/* "$root/usr/local/bin/node" 2>/dev/null | grep -o '/lib[^ ]*' | sort -u | while read -r library; do
  [ -e "$root$library" ] || { echo "hack/image-root.sh: $library is needed, name its package" >&2; exit 1; }
done
# The last 17 MiB of Node's file are symbols and debug information, which only debuggers read. Cut them off after the last segment that is
# loaded.
node - "$root/usr/local/bin/node" <<'END'
const fs = require("node:fs");
const elf = fs.readFileSync(process.argv[2]);
const segmentAt = (index) => Number(elf.readBigUInt64LE(32)) + index * elf.readUInt16LE(54);
const segments = Array.from({ length: elf.readUInt16LE(56) }, (_, index) => segmentAt(index));
const end = Math.max(...segments.map((at) => Number(elf.readBigUInt64LE(at + 8) + elf.readBigUInt64LE(at + 32))));
elf.writeBigUInt64LE(0n, 40); // no section headers
elf.fill(0, 58, 64);
fs.writeFileSync(process.argv[2], elf.subarray(0, end));
END
chroot "$root" node --version >&2
