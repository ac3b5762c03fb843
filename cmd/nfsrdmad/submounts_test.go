package main

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/internal/mountinfo"
	"github.com/nfsrdma/nfsrdma/internal/nstest"
	"github.com/nfsrdma/nfsrdma/nfs/mount3"
	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/nfsserver/exports"
)

// lookup3 makes an NFSv3 LOOKUP from a host.
func (g *reloadTest) lookup3(from string, dir nfs3.FH, name string) (res nfs3.LookupRes) {
	g.t.Helper()
	args := nfs3.DirOpArgs{Dir: dir, Name: []byte(name)}
	r := g.mustCall(from, nfs3.Program, nfs3.ProcLookup, args.AppendTo(nil))
	res.Decode(&r)
	require.NoError(g.t, r.Done())
	return res
}

// retry does what the daemon does after a change of mounts.
func (g *reloadTest) retry() { g.options.retryExports(g.t.Context(), g.shares, g.logger) }

// TestSubmounts checks that the file systems mounted below an export with crossmnt show in it, come
// and go with their mounts, and keep their handles across a remount and a restart of the daemon.
func TestSubmounts(t *testing.T) {
	nstest.Run(t, func(t *testing.T) {
		g := newReloadTest(t, "./a 192.0.2.1(rw,crossmnt) 192.0.2.2(ro)")
		sh := func(script string) { nstest.Script(t, "cd "+g.dir+"; "+script) }
		sh("truncate -s 20M disk; mkfs.ext4 -q disk; mkdir a/disk a/tmp a/deep a/deep/bind; mount -o loop disk a/disk; echo data >a/disk/file; mkdir b/inner; echo data >b/inner/file")
		mounted := []string{"a/disk"}
		defer func() {
			for _, at := range mounted {
				sh("umount " + at)
			}
		}()
		root, status := g.callMnt(hostA, "a")
		require.Equal(t, mount3.OK, status)
		hidden := g.lookup3(hostA, root, "disk")
		g.retry()

		disk := g.lookup3(hostA, root, "disk")
		require.Equal(t, nfs3.OK, disk.Status)
		assert.NotEqual(t, hidden.ObjAttr.Attr.FSID, disk.ObjAttr.Attr.FSID, "its own fsid")
		file := g.lookup3(hostA, disk.Object, "file")
		require.Equal(t, nfs3.OK, file.Status)
		assert.Equal(t, string(root), string(g.lookup3(hostA, disk.Object, "..").Object), "the parent of a mounted root")
		assert.Equal(t, hidden.Object, g.lookup3(hostB, root, "disk").Object, "a client without crossmnt sees the directory beneath")
		assert.Equal(t, nfs3.ErrAcces, g.callGetAttr(hostB, disk.Object), "and cannot use the handle")
		fh, status := g.callMnt(hostA, "a/disk")
		assert.Equal(t, []any{mount3.OK, string(disk.Object)}, []any{status, string(fh)})
		fh, status = g.callMnt(hostB, "a/disk")
		assert.Equal(t, []any{mount3.OK, string(hidden.Object)}, []any{status, string(fh)})

		sh("mount -t tmpfs t a/tmp; mount --bind b a/deep/bind; mkdir a/tmp/in; mount -t tmpfs t a/tmp/in; touch a/tmp/in/file")
		mounted = []string{"a/disk", "a/tmp/in", "a/tmp", "a/deep/bind"}
		g.retry()
		fsids := map[uint64]bool{disk.ObjAttr.Attr.FSID: true, hidden.ObjAttr.Attr.FSID: true}
		for _, path := range [][]string{{"tmp"}, {"tmp", "in"}, {"deep", "bind"}} {
			at := nfs3.LookupRes{Object: root}
			for _, name := range path {
				at = g.lookup3(hostA, at.Object, name)
				require.Equal(t, nfs3.OK, at.Status, path)
			}
			assert.False(t, fsids[at.ObjAttr.Attr.FSID], path)
			fsids[at.ObjAttr.Attr.FSID] = true
		}

		// Renaming a directory that leads to a mount would move the mount for other clients.
		rename := nfs3.RenameArgs{From: nfs3.DirOpArgs{Dir: root, Name: []byte("deep")}, To: nfs3.DirOpArgs{Dir: root, Name: []byte("other")}}
		var renamed nfs3.RenameRes
		r := g.mustCall(hostA, nfs3.Program, nfs3.ProcRename, rename.AppendTo(nil))
		renamed.Decode(&r)
		assert.Equal(t, nfs3.ErrAcces, renamed.Status)
		rename = nfs3.RenameArgs{From: nfs3.DirOpArgs{Dir: disk.Object, Name: []byte("file")}, To: nfs3.DirOpArgs{Dir: root, Name: []byte("file")}}
		r = g.mustCall(hostA, nfs3.Program, nfs3.ProcRename, rename.AppendTo(nil))
		renamed.Decode(&r)
		assert.Equal(t, nfs3.ErrXDev, renamed.Status)

		sh("umount a/disk")
		g.retry()
		assert.Equal(t, nfs3.ErrStale, g.callGetAttr(hostA, file.Object), "it has gone")
		assert.Equal(t, nfs3.OK, g.callGetAttr(hostA, root), "the rest goes on")
		assert.Equal(t, string(hidden.Object), string(g.lookup3(hostA, root, "disk").Object))
		sh("mount -o loop disk a/disk")
		g.retry()
		assert.Equal(t, nfs3.OK, g.callGetAttr(hostA, file.Object), "handles survive a remount")

		done, log := g.reloadText("./a 192.0.2.1(ro,crossmnt)")
		require.True(t, done, log)
		var written nfs3.WccRes
		set := nfs3.SetAttrArgs{Object: file.Object}
		r = g.mustCall(hostA, nfs3.Program, nfs3.ProcSetAttr, set.AppendTo(nil))
		written.Decode(&r)
		assert.Equal(t, nfs3.ErrROFS, written.Status, "the parent's new rules")
		done, log = g.reloadText("./a *(rw)")
		require.True(t, done, log)
		assert.Contains(t, log, "clients of "+g.dir+"/a see empty directories in place of the mounts below it")
		assert.Equal(t, nfs3.ErrStale, g.callGetAttr(hostA, file.Object))
		g.waitOpen(1, "only the parent is open")
		g.log.Reset()
		sh("mkdir a/late; mount -t tmpfs t a/late")
		mounted = append(mounted, "a/late")
		g.retry()
		g.retry()
		assert.Contains(t, g.log.String(), "a/late")
	})
}

// TestOpenMountPoint checks that a submount is opened only if the mount in the kernel's list is still
// there: neither a symbolic link nor another mount takes its place.
func TestOpenMountPoint(t *testing.T) {
	nstest.Run(t, func(t *testing.T) {
		dir := t.TempDir()
		nstest.Script(t, "cd "+dir+"; mkdir a b other; mount -t tmpfs t a; mount -t tmpfs t b")
		defer nstest.Script(t, "cd "+dir+"; umount a b")
		s := newShareSet(nil, nil)
		mounts := s.findMountsLocked([]exportSpec{{dir: dir}})[0]
		require.Len(t, mounts, 2)
		fd, err := openMountPoint(dir+"/a", mounts[0].ID)
		require.NoError(t, err)
		assert.NoError(t, os.NewFile(uintptr(fd), "").Close())
		for _, path := range []string{dir + "/b", dir + "/other", dir} {
			_, err := openMountPoint(path, mounts[0].ID)
			assert.ErrorContains(t, err, "another file system is mounted there now", path)
		}
		link := filepath.Join(t.TempDir(), "link")
		require.NoError(t, os.Symlink(dir, link))
		_, err = openMountPoint(link+"/a", mounts[0].ID)
		assert.Error(t, err, "a symbolic link on the way")
	})
}

// TestSubvolumes checks that Btrfs subvolumes and snapshots below an export show without crossmnt, each
// with its own fsid, and that their handles survive a remount and a restart.
func TestSubvolumes(t *testing.T) {
	nstest.Run(t, func(t *testing.T) {
		dir := t.TempDir()
		sh := func(script string) { nstest.Script(t, "cd "+dir+"; "+script) }
		sh("mkdir fs; truncate -s 200M disk; mkfs.btrfs -q disk; mount -o loop disk fs; btrfs -q subvolume create fs/one; mkdir fs/one/in fs/x; echo data >fs/one/file; btrfs -q subvolume create fs/one/in/deep; btrfs -q subvolume create fs/beside; chmod -R a+rwX fs")
		defer sh("umount fs")
		g := newReloadTest(t, "./a *(rw)")
		done, log := g.reloadText(dir + "/fs *(rw)\n" + dir + "/fs/x *(ro)")
		require.True(t, done, log)
		var mnt mount3.MntRes
		path := mount3.PathArgs{Path: []byte(dir + "/fs")}
		r := g.mustCall(hostA, mount3.Program, mount3.ProcMnt, path.AppendTo(nil))
		mnt.Decode(&r)
		require.Equal(t, mount3.OK, mnt.Status)
		fsids := map[uint64]bool{}
		look := func(dir nfs3.FH, names ...string) nfs3.FH {
			t.Helper()
			for _, name := range names {
				at := g.lookup3(hostA, dir, name)
				require.Equal(t, nfs3.OK, at.Status, name)
				fsids[at.ObjAttr.Attr.FSID] = true
				dir = at.Object
			}
			return dir
		}
		file := look(mnt.Handle, "one", "file")
		look(mnt.Handle, "one", "in", "deep")
		look(mnt.Handle, "beside")
		assert.Len(t, fsids, 3)

		sh("btrfs -q subvolume snapshot fs/one fs/snap")
		require.Eventually(t, func() bool {
			g.retry()
			return g.lookup3(hostA, mnt.Handle, "snap").Status == nfs3.OK
		}, 10*time.Second, time.Millisecond)
		copied := look(mnt.Handle, "snap", "file")
		assert.NotEqual(t, string(file), string(copied))
		assert.Len(t, fsids, 4)

		done, log = g.reloadText("./a *(rw)")
		require.True(t, done, log)
		assert.Equal(t, nfs3.ErrStale, g.callGetAttr(hostA, copied))
		g.waitOpen(1, "the file system is not in use")
		sh("umount fs; mount -o loop disk fs")
		done, log = g.reloadText(dir + "/fs *(rw)")
		require.True(t, done, log)
		assert.Equal(t, nfs3.OK, g.callGetAttr(hostA, copied))
		assert.Equal(t, nfs3.OK, g.callGetAttr(hostA, file))

		sh("btrfs -q subvolume delete fs/snap")
		require.Eventually(t, func() bool {
			g.retry()
			return g.callGetAttr(hostA, copied) == nfs3.ErrStale
		}, 10*time.Second, time.Millisecond)
		assert.Equal(t, nfs3.OK, g.callGetAttr(hostA, file))
	})
}

// TestFindSubmounts checks which mounts of a host become exports, and which are left out: those with
// names that are taken or too long, and those beyond the bound.
func TestFindSubmounts(t *testing.T) {
	cross := exports.Everyone(exports.Options{CrossMnt: true, NoHide: true})
	fault := errors.New("no keytab")
	list := []exportSpec{
		{dir: "/srv", name: "/srv", clients: cross},
		{dir: "/srv/own", name: "/srv/own", clients: exports.Everyone(exports.Options{})},
		{dir: "/broken", name: "/broken", clients: cross, broken: true},
		{dir: "/faulty", name: "/faulty", clients: cross, fault: fault},
		{memory: 1, dir: "mem:", name: "/memory", clients: cross},
	}
	mounts := []mountinfo.Mount{{ID: 1, Parent: 1, Point: "/", Kind: "ext4"}}
	add := func(point, kind string) {
		mounts = append(mounts, mountinfo.Mount{ID: uint64(len(mounts) + 1), Parent: 1, Point: point, Kind: kind})
	}
	for _, point := range []string{"/srv/a", "/srv/own/hidden", "/broken/a", "/faulty/a", "/elsewhere", "/srv/" + strings.Repeat("n/", 600)} {
		add(strings.TrimSuffix(point, "/"), "xfs")
	}
	add("/srv/proc", "proc")
	s := newShareSet(nil, slog.New(slog.DiscardHandler))
	s.listMounts = func() ([]mountinfo.Mount, error) { return slices.Clone(mounts), nil }
	found, left := s.findSubmountsLocked(list)
	require.Len(t, found, 2)
	assert.Equal(t, []string{"/srv/a", "/faulty/a"}, []string{found[0].name, found[1].name})
	assert.Equal(t, fault, found[1].fault, "it waits for the parent's")
	assert.Equal(t, exports.Options{CrossMnt: true}, found[0].clients[0].Options)
	assert.Len(t, left, 1)

	for i := range maxSubmounts {
		add(fmt.Sprint("/srv/b/", i), "tmpfs")
	}
	found, left = s.findSubmountsLocked(list)
	assert.Len(t, found, maxSubmounts)
	assert.Len(t, left, 1+2)
	s.list, s.submounts = list, found
	for i := range maxSubmounts {
		add(fmt.Sprint("/srv/aa/", i), "fuse.sshfs")
	}
	again, left := s.findSubmountsLocked(list)
	assert.Equal(t, found, again, "new mounts take no place from those that clients use")
	assert.Len(t, left, 1+2+maxSubmounts)
	assert.False(t, s.haveSubmountsChanged())
	add(found[maxSubmounts-1].dir, "xfs")
	again, _ = s.findSubmountsLocked(list)
	assert.Equal(t, found[maxSubmounts-1].name, again[maxSubmounts-1].name, "nor from an automount, when it is triggered")
}

// TestUnservableSubmounts checks that clients see what is beneath a mount that cannot be served as long
// as it is mounted, and that the log names it once. A mount at a path that a user of the host has chosen
// so that its ID is that of another export does not disturb the other.
func TestUnservableSubmounts(t *testing.T) {
	nstest.Run(t, func(t *testing.T) {
		g := newReloadTest(t, "./a 192.0.2.1(rw,crossmnt)\n./b *(rw)")
		names := collidingNames(g.dir + "/a/")
		sh := func(script string) { nstest.Script(t, "cd "+g.dir+"/a; "+script) }
		sh(fmt.Sprintf("mkdir state %[1]s %[2]s; touch file other; mount --bind %[3]s state; mount --bind other file; mount -t tmpfs t %[1]s; mount -t tmpfs t %[2]s", names[0], names[1], g.shares.state.dir))
		sh("mkdir private")
		fuse, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
		require.NoError(t, err)
		defer unix.Close(fuse)
		require.NoError(t, unix.Mount("fuse", g.dir+"/a/private", "fuse", 0, fmt.Sprintf("fd=%d,rootmode=40000,user_id=1000,group_id=1000", fuse)))
		defer sh(fmt.Sprintf("umount state file private %s %s", names[0], names[1]))
		root, _ := g.callMnt(hostA, "a")
		beneath := g.lookup3(hostA, root, "state")
		for range 3 {
			g.retry()
		}
		for _, name := range []string{"state", "file", "private", names[0], names[1]} {
			assert.Equal(t, nfs3.OK, g.lookup3(hostA, root, name).Status, name)
		}
		assert.Equal(t, beneath.Object, g.lookup3(hostA, root, "state").Object)
		assert.Equal(t, 1, strings.Count(g.log.String(), "not exporting mounts"))
		assert.Contains(t, g.log.String(), "left=4")
		done, log := g.reloadText("./a 192.0.2.1(ro,crossmnt)")
		assert.True(t, done, log)
	})
}

// collidingNames returns two names that have the same hash32 after a prefix.
func collidingNames(prefix string) [2]string {
	known := make(map[uint32]string)
	for i := 0; ; i++ {
		name := fmt.Sprint("m", i)
		h := hash32([]byte(prefix + name))
		if other, found := known[h]; found {
			return [2]string{other, name}
		}
		known[h] = name
	}
}
