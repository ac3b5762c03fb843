//go:build interop

package interop

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// everyday makes a root directory in the guest of this host's /usr, read-only
// over NFS, with a mount point for the place to work in. The guest has no programs
// of its own.
const everyday = `mkdir -p /everyday && cd /everyday && mkdir -p usr proc dev tmp work && for d in bin lib lib64; do ln -sfn usr/$d $d; done
mount.nfs %[1]s:/usr usr -o %[2]s && mount -o bind /proc proc && mount -o bind /dev dev`

// everydayWork is everyday work: tar, git, make and gcc.
const everydayWork = `set -e
export HOME=/tmp GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@example.org GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@example.org
cd /work
mkdir -p tree/a/b tree/c
for n in $(seq 100); do echo $n >tree/a/$n; echo $n $n >tree/a/b/$n; done
ln -s ../a/1 tree/c/link; ln tree/a/2 tree/c/second
tar cf tree.tar tree
mkdir out
tar xf tree.tar -C out
tar df tree.tar
diff -r tree out/tree
git init -q -b main repository
cd repository
cp -r ../tree .
git add .
git commit -q -m one
git checkout -q -b other
rm -r tree/a/b
echo more >>tree/a/1
git commit -q -a -m two
git checkout -q main
test -f tree/a/b/100
git merge -q other
git gc -q
git fsck --strict --no-progress
test -z "$(git status --porcelain)"
cd ..
git clone -q repository clone
diff -r -x .git repository clone
mkdir program
cd program
for n in 1 2 3; do echo "int f$n(void) { return $n; }" >f$n.c; done
printf 'int printf(const char *, ...);\nint f1(void); int f2(void); int f3(void);\nint main(void) { printf("%%d\\n", f1() + f2() + f3()); }\n' >main.c
printf 'main: main.o f1.o f2.o f3.o\n\tgcc -o $@ $^\n%%.o: %%.c\n\tgcc -c $<\n' >Makefile
make -s -j2
./main
make
cd ..
rm -r *
`

// TestWork4 checks that everyday programs work on mounts by versions 4.2 and 4.0, from
// which they are also started: tar, git, make and gcc. It takes minutes.
func TestWork4(t *testing.T) {
	if os.Getenv("INTEROP_SOAK") == "" {
		t.Skip("INTEROP_SOAK is not set")
	}
	sharedGuest(t)
	dir := reachableDir(t)
	exports := filepath.Join(t.TempDir(), "exports")
	require.NoError(t, os.WriteFile(exports, []byte("/usr *(ro,insecure,no_root_squash)\n"+dir+" *(rw,insecure,no_root_squash)\n"), 0o644))
	require.NoError(t, os.WriteFile(dir+"/script", []byte(everydayWork), 0o644))
	d := serveExports(t, dir, exports)
	for _, by := range [][2]string{{"rdma", "4.2"}, {"tcp", "4.2"}, {"rdma", "4.0"}, {"tcp", "4.0"}} {
		t.Run(by[1]+" over "+by[0], func(t *testing.T) {
			s, transport := d.guestSite().withVersion(by[1]), by[0]
			mustInGuest(t, fmt.Sprintf(everyday, s.host, s.mountOptions(transport)))
			s.export = dir
			s.mountInGuest(t, "/everyday/work", s.mountOptions(transport))
			logTime(t, "work", func() {
				out, status := tryInGuest(t, "cp /everyday/work/script /everyday/tmp; rm /everyday/work/script; chroot /everyday /bin/sh /tmp/script")
				assert.Zero(t, status, "%s", outputTail(out))
				// The clock of the guest may be behind by part of a second, of which make warns.
				assert.Regexp(t, `(?m)^6$`, out)
				assert.Regexp(t, `(?m)^make: 'main' is up to date\.$`, out)
			})
			mustInGuest(t, "cd /everyday; cp tmp/script work/script; umount dev proc work usr")
		})
	}
}
