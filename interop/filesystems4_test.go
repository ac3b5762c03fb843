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

// fileSystemsWork is work in a new file system by programs that use operations over
// NFSv4.2, and access control lists. It prints the statuses and the errors. %[1]d is the
// size of a file that is mostly a hole, in MiB.
const fileSystemsWork = `cd /work; mkdir t; cd t
it() { name=$1; shift; "$@" >/tmp/out 2>/tmp/said; echo "$name: $? $(sed 's/.*: //' /tmp/said | tr '\n' ' ')"; cat /tmp/out; }
mib() { dd if=/tmp/mib of=$1 bs=1M seek=$2 conv=notrunc 2>&-; }
seq 1000000 | head -c 1M >/tmp/mib
for n in 0 1 2; do mib data $n; done
it always cp --reflink=always data always
it auto cp --reflink=auto data auto
it never cp --reflink=never data never
it shared cmp data auto
printf changed | dd of=auto bs=1 seek=100000 conv=notrunc 2>&-
it apart cmp data auto
truncate -s %[1]dM sparse
for n in 0 $((%[1]d / 2)) $((%[1]d - 1)); do mib sparse $n; done
it sparse cp sparse sparse-auto
it 'sparse, by data' cp --reflink=never sparse sparse-never
it allocate fallocate -l 2M allocated
it punch fallocate -p -o 100000 -l 500000 never
it punch-clone fallocate -p -o 1M -l 1M auto
it zero fallocate -z -o 0 -l 64K data
it set setfattr -n user.one -v value data
it get getfattr -d data
it add nfs4_setfacl -a A::1001:rx data
it list nfs4_getfacl data
`

// fileSystemsMore is more such work, with INTEROP_SOAK. Each list that is inherited
// names owner, group and everyone: if it does not, nfsrdmad takes their rights from
// the directory's own list, and knfsd only since Linux 6.6.
const fileSystemsMore = `
it grow fallocate -o 3M -l 1M never
it 'allocate beyond the end' fallocate -n -o 8M -l 1M never
it collapse fallocate -c -o 0 -l 64K data
it insert fallocate -i -o 0 -l 64K data
dd if=/dev/zero of=never bs=64K seek=20 count=4 conv=notrunc 2>&-
it dig fallocate -d never
mkdir d
for f in data d; do
	it 'set empty' setfattr -n user.two $f
	it 'set again' setfattr -n user.one -v other $f
	it 'set long' setfattr -n user.long -v $(printf %03000d 7) $f
	it 'set too long' setfattr -n user.longer -v $(printf %070000d 7) $f
	it remove setfattr -x user.two $f
	it 'remove again' setfattr -x user.two $f
	it missing getfattr -n user.none $f
	it trusted setfattr -n trusted.one -v value $f
	it get getfattr -d $f
done
it 'cp -a' cp -a data kept
it 'get kept' getfattr -d kept
mkfifo p
it pipe setfattr -n user.one -v value p
for f in never d; do
	it list nfs4_getfacl $f
	it add nfs4_setfacl -a A::1001:rx $f
	it 'add group' nfs4_setfacl -a A:g:1002:rwaDx $f
	it 'deny' nfs4_setfacl -a D::1003:w $f
	it 'list denied' nfs4_getfacl $f
	it remove nfs4_setfacl -x A::1001:rxtcy $f
	it inherit nfs4_setfacl -a A:fd:OWNER@:rwax,A:fd:1004:rx,A:fd:GROUP@:rx,A:fd:EVERYONE@:t $f
	it audit nfs4_setfacl -a U:S:EVERYONE@:r $f
	it modify nfs4_setfacl -m A:g:1002:rwatcy A:g:1002:rtcy $f
	it 'list all' nfs4_getfacl $f
done
mkdir d/sub
touch d/file
it 'list heir' nfs4_getfacl d/file
it 'list directory' nfs4_getfacl d/sub
it set nfs4_setfacl -s A::OWNER@:rwatTcCy,A::GROUP@:rtcy,A::EVERYONE@:tcy data
it 'list set' nfs4_getfacl data
it 'set nothing' nfs4_setfacl -s '' data
`

// fileSystemsLook describes the files that are the result, in the file system
// itself. Rather than the whole of files that are mostly holes, it reads the data
// in them: their storage tells that there is no more.
const fileSystemsLook = `cd t
all=$(find . | sort) files=$(find . -type f | sort)
stat -c '%%n %%F %%s %%b %%a' $all
getfattr -h -d -m '^user|^system.posix' -e hex $all 2>&1
for f in $files; do
	case $f in
	./sparse*) for n in 0 $((%[1]d / 2)) $((%[1]d - 1)); do dd if=$f bs=1M skip=$n count=1 2>&- | sha256sum; done ;;
	*) sha256sum $f ;;
	esac
done
filefrag -v $files | sed -n 's/^File size of \([^ ]*\) .*/\1/p; s/.*shared.*/shared/p' | uniq
`

// TestFileSystems4 has Debian's cp, fallocate, setfattr and nfs4_setfacl work on file
// systems that nfsrdmad serves over NFSv4.2, and on the same file systems that knfsd
// serves: the statuses, data, attributes and lists, the storage in use, and which files
// share storage must be the same: Btrfs, or with INTEROP_SOAK all, more work, and a file
// of 10 GiB that is mostly a hole.
func TestFileSystems4(t *testing.T) {
	sharedGuest(t)
	kinds, size, more := []string{"btrfs"}, 64, "" // MiB
	if os.Getenv("INTEROP_SOAK") != "" {
		kinds, size, more = []string{"btrfs", "ext4", "xfs"}, 10<<10, fileSystemsMore
	}
	work, look := fmt.Sprintf(fileSystemsWork, size)+more, fmt.Sprintf(fileSystemsLook, size)
	exports := filepath.Join(t.TempDir(), "exports")
	require.NoError(t, os.WriteFile(exports, []byte("/usr *(ro,insecure,no_root_squash)\n"), 0o644))
	programs := serveExports(t, "/usr", exports).guestSite().withVersion("4.2")
	mustInGuest(t, fmt.Sprintf(everyday, programs.host, programs.mountOptions("tcp")))
	inside := func(script string) string {
		return mustInGuest(t, "cat >/everyday/tmp/script <<'END'\n"+script+"\nEND\nchroot /everyday /bin/sh /tmp/script 2>&1")
	}
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			var said, seen [2]string
			logTime(t, "nfsrdmad", func() {
				disk := newDiskOf(t, kind)
				d := serveDir(t, disk.dir, "--no-root-squash")
				s := d.guestSite().withVersion("4.2")
				s.mountInGuest(t, "/everyday/work", s.mountOptions("rdma"))
				said[0] = inside(work)
				unmountInGuest(t, "/everyday/work")
				d.stopGracefully()
				// XFS keeps storage behind the ends of files for a while.
				onHost(t, "/", disk.umountCommand())
				disk.mountImage()
				seen[0] = onHost(t, disk.dir, look)
			})
			logTime(t, "knfsd", func() {
				inside(fmt.Sprintf("truncate -s %d /tmp/image && %s /tmp/image", diskSize, makers[kind]))
				mustInGuest(t, "mkdir -p /export/disk && mount -t "+kind+" -o loop,"+mountOptions(kind)+" /everyday/tmp/image /export/disk && "+
					"exportfs -o rw,insecure,no_root_squash,no_subtree_check,fsid=9 '*:/export/disk'")
				k := knfsdSite4()
				k.export = "/disk"
				k.mountInGuest(t, "/everyday/work", k.mountOptions("tcp"))
				said[1] = inside(work)
				unmountInGuest(t, "/everyday/work")
				mustInGuest(t, "exportfs -u '*:/export/disk'; n=0; until exportfs -f; umount /export/disk; do sleep 0.2; n=$((n+1)); [ $n -lt 50 ] || exit 1; done 2>&1")
				mustInGuest(t, "mount -t "+kind+" -o loop /everyday/tmp/image /everyday/work")
				seen[1] = inside("cd /work; " + look)
				mustInGuest(t, "umount /everyday/work; rm /everyday/tmp/image; rmdir /export/disk")
			})
			t.Logf("%s", said[0])
			t.Logf("%s", seen[0])
			assert.Equal(t, said[1], said[0])
			assert.Equal(t, seen[1], seen[0])
		})
	}
	mustInGuest(t, "cd /everyday; umount dev proc usr")
}
