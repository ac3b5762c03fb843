package main

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/nfs/mount3"
	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/nfsserver/exports"
	"github.com/nfsrdma/nfsrdma/nfsserver/idmap"
	"github.com/nfsrdma/nfsrdma/vfs"
)

func tolerateAll(*exportSpec) bool { return true }

// TestStartWithFaults checks that a daemon serves the exports that it can, that the clients of
// the others must try again, and that each is served once its fault has been mended, without a
// command: a missing directory, a bad line, a missing keytab.
func TestStartWithFaults(t *testing.T) {
	g := newReloadTest(t, "./a *(rw)\n./none *(rw)\n./b 192.0.2.1(rx)\n./c *(rw) 192.0.2.2(sec=krb5)\nx *\n")
	g.options.owners = idmap.New(idmap.Config{Log: g.logger})
	defer g.options.owners.Close()
	log := g.log.String()
	for _, want := range []string{
		"exports:3:", `unknown option \"rx\"`, `exports:5:1: \"x\" is not an absolute path`,
		"export=" + g.dir + "/none", "no such directory: create it",
		"export=" + g.dir + "/b", "export=" + g.dir + "/c", " cannot be read (no such file or directory): add the key with ktadd",
	} {
		assert.Contains(t, log, want)
	}
	statuses := func() (got []mount3.Status) {
		for _, name := range []string{"a", "none", "b", "c"} {
			_, status := g.callMnt(hostA, name)
			got = append(got, status)
		}
		return got
	}
	const ok, later = mount3.OK, mount3.ErrServerFault
	assert.Equal(t, []mount3.Status{ok, later, later, later}, statuses())
	retry := func() string {
		g.log.Reset()
		g.options.retryExports(t.Context(), g.shares, g.logger)
		return g.log.String()
	}
	assert.Empty(t, retry(), "nothing has changed")

	require.NoError(t, os.Mkdir(filepath.Join(g.dir, "none"), 0o755))
	assert.Contains(t, retry(), `msg="an export is not unavailable any more" export=`+g.dir+"/none")
	assert.Equal(t, []mount3.Status{ok, ok, later, later}, statuses())

	writeKeytab(t, g.options.kerberos.keytab, "EXAMPLE.ORG", "nfs", "server.example")
	assert.Contains(t, retry(), g.dir+"/c")
	assert.Equal(t, []mount3.Status{ok, ok, later, ok}, statuses())

	g.writeExports("./a *(rw)\n")
	assert.Empty(t, retry(), "the file may be incomplete")
	g.writeExports("./a *(rw)\n./none *(rw)\n./b 192.0.2.1(rw)\n./c *(rw)")
	assert.Empty(t, retry())
	assert.Equal(t, []mount3.Status{ok, ok, later, ok}, statuses())
	assert.Contains(t, retry(), "the exports were reloaded")
	assert.Equal(t, []mount3.Status{ok, ok, ok, ok}, statuses())
	assert.False(t, g.shares.hasUnavailable())
	g.waitOpen(4, "all are open")
}

// TestSameFSID checks that two lines with the same fsid= make only their exports unavailable.
func TestSameFSID(t *testing.T) {
	g := newReloadTest(t, "./a *(rw)\n./b *(rw,fsid=1)\n./c *(rw,fsid=1)\n")
	for name, want := range map[string]mount3.Status{"a": mount3.OK, "b": mount3.ErrServerFault, "c": mount3.ErrServerFault} {
		_, status := g.callMnt(hostA, name)
		assert.Equal(t, want, status, name)
	}
}

// TestHandlesOfUnavailableExport checks that a handle from before a restart does not become stale
// while its directory is missing, whatever was served at its path before.
func TestHandlesOfUnavailableExport(t *testing.T) {
	g := newReloadTest(t, "./a *(rw)\n./b *(rw)")
	disk, empty := filepath.Join(g.dir, "a"), filepath.Join(g.dir, "empty")
	require.NoError(t, os.Mkdir(empty, 0o755))
	restart := func() {
		done, log := g.reloadText("./b *(rw)")
		require.True(t, done, log)
		g.waitOpen(1, "a is closed")
		g.writeExports("./a *(rw)\n./b *(rw)")
		list, err := g.options.readExportsFile(g.logger)
		require.NoError(t, err)
		taken, keep, _, err := g.shares.acquireShares(list, tolerateAll)
		require.NoError(t, err)
		require.NoError(t, g.options.daemon.server.SetExports(taken))
		keep()
	}
	rename := func(from, to string) { require.NoError(t, os.Rename(from, to)) }
	before, status := g.callMnt(hostA, "a")
	require.Equal(t, mount3.OK, status)

	rename(disk, disk+".away") // the mount point without its disk is another directory
	rename(empty, disk)
	restart()
	assert.Equal(t, nfs3.ErrStale, g.callGetAttr(hostA, before))
	rename(disk, empty)
	rename(disk+".away", disk)
	restart()
	assert.Equal(t, nfs3.OK, g.callGetAttr(hostA, before))

	rename(disk, disk+".away")
	restart()
	assert.Equal(t, nfs3.ErrJukebox, g.callGetAttr(hostA, before))
	rename(disk+".away", disk)
	g.options.retryExports(t.Context(), g.shares, g.logger)
	assert.Equal(t, nfs3.OK, g.callGetAttr(hostA, before))
}

// TestHandlesOfUnreadableDropIn checks that handles do not become stale while the start cannot read a
// drop-in, which may be their export's, and that it is read later without a command.
func TestHandlesOfUnreadableDropIn(t *testing.T) {
	g := newReloadTest(t, "./a *(rw)\n./b *(rw)")
	before, status := g.callMnt(hostA, "b")
	require.Equal(t, mount3.OK, status)
	done, log := g.reloadText("./a *(rw)")
	require.True(t, done, log)
	g.waitOpen(1, "b is closed")

	dropIn, target := filepath.Join(g.options.exportsFile+".d", "b.exports"), filepath.Join(g.dir, "late")
	require.NoError(t, os.Mkdir(filepath.Dir(dropIn), 0o755))
	require.NoError(t, os.Symlink(target, dropIn))
	done, log = g.reloadText("./a *(rw)")
	assert.False(t, done, "a reload changes nothing")
	assert.Contains(t, log, dropIn+" cannot be read")
	taken, err := g.options.openExports(t.Context(), g.shares, g.logger)
	require.NoError(t, err)
	require.NoError(t, g.options.daemon.server.SetExports(taken))
	_, status = g.callMnt(hostA, "a")
	assert.Equal(t, mount3.OK, status)
	assert.Equal(t, nfs3.ErrJukebox, g.callGetAttr(hostA, before))

	require.NoError(t, os.WriteFile(target, []byte(g.dir+"/b *(rw)\n"), 0o644))
	for range 2 { // once it has settled
		g.options.retryExports(t.Context(), g.shares, g.logger)
	}
	assert.Equal(t, nfs3.OK, g.callGetAttr(hostA, before))
	assert.False(t, g.shares.hasUnavailable())
}

// TestReloadWithUnavailable checks that an export that is unavailable since the start does not
// prevent other changes, and that a reload still rejects an export that is new and wrong.
func TestReloadWithUnavailable(t *testing.T) {
	g := newReloadTest(t, "./a *(rw)\n./none *(rw)")
	assert.Equal(t, 1, strings.Count(g.log.String(), "level=ERROR"), "the file has no error: %s", &g.log)
	done, log := g.reloadText("./a *(rw)\n./none *(rw)\n./b *(rw)")
	assert.True(t, done, log)
	_, status := g.callMnt(hostA, "b")
	assert.Equal(t, mount3.OK, status)
	done, log = g.reloadText("./a *(rw)\n./none *(rw)\n./other *(rw)")
	assert.False(t, done)
	assert.Contains(t, log, "/other: no such directory")
	assert.NotContains(t, log, "/none")
	done, log = g.reloadText("./a *(rw)")
	assert.True(t, done, log)
	_, status = g.callMnt(hostA, "none")
	assert.Equal(t, mount3.ErrNoEnt, status)
	assert.False(t, g.shares.hasUnavailable())
}

// TestUnavailableHung checks that a directory that does not respond delays the start for
// openTimeout, is served by a later attempt when it responds, and is closed if its export has
// been removed.
func TestUnavailableHung(t *testing.T) {
	for name, removed := range map[string]bool{"served": false, "removed": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newHungShareTest(t)
				r.hangOpen = true
				list := newExportSpecs("/hung", "/other")
				acquire := func(list []exportSpec) map[string]string {
					taken, keep, _, err := r.acquireShares(list, tolerateAll)
					require.NoError(t, err)
					require.Len(t, taken, len(list))
					keep()
					return listReasons(taken)
				}
				assert.Equal(t, openTimeout, measureTime(func() {
					assert.Equal(t, map[string]string{"/hung": "/hung does not respond: check its disk or its server"}, acquire(list))
				}))
				assert.Len(t, r.open, 1)
				assert.Equal(t, openTimeout, measureTime(func() { acquire(list) }))
				if removed {
					acquire(list[1:])
				}
				close(r.fs.gate)
				synctest.Wait()
				if removed {
					assert.EqualValues(t, 1, r.fs.closeCount.Load())
				} else {
					assert.Zero(t, measureTime(func() { assert.Empty(t, acquire(list)) }))
					assert.Len(t, r.open, 2)
				}
				assert.Empty(t, r.openings)
				require.NoError(t, r.Close())
				time.Sleep(openTimeout)
				assert.EqualValues(t, 2, r.fs.closeCount.Load())
			})
		})
	}
}

// TestReaddHungExport checks that an export that is removed and added again while its directory is
// being opened is opened again only after the first attempt has ended: two must not use its state.
func TestReaddHungExport(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newHungShareTest(t)
		r.hangOpen, r.fs.hangClose = true, true
		var running, most atomic.Int32
		open := r.openExport
		r.openExport = func(e *exportSpec) (vfs.FS, error) {
			most.Store(max(most.Load(), running.Add(1)))
			defer running.Add(-1)
			return open(e)
		}
		acquire := func(list []exportSpec) map[string]string {
			taken, keep, _, err := r.acquireShares(list, tolerateAll)
			require.NoError(t, err)
			keep()
			return listReasons(taken)
		}
		hung := newExportSpecs("/hung")
		assert.Len(t, acquire(hung), 1)
		acquire(nil)
		assert.Len(t, acquire(hung), 1)
		assert.EqualValues(t, 1, most.Load())
		close(r.fs.gate)
		synctest.Wait()
		assert.Empty(t, acquire(hung))
		assert.EqualValues(t, 1, r.fs.closeCount.Load(), "the first")
		require.NoError(t, r.Close())
		assert.EqualValues(t, 2, r.fs.closeCount.Load())
	})
}

// TestOpenExportError checks that a directory that cannot be opened is no file system: one that
// is dropped would be closed.
func TestOpenExportError(t *testing.T) {
	st, err := openState(t.TempDir())
	require.NoError(t, err)
	defer st.Close()
	require.NoError(t, os.WriteFile(filepath.Join(st.dir, "exports-checked"), nil, 0o600))
	e := exportSpec{dir: t.TempDir(), name: "/x", clients: exports.Everyone(exports.Options{SubtreeCheck: true})}
	fs, err := openExport(&e, st, slog.New(slog.DiscardHandler))
	assert.Error(t, err)
	assert.True(t, fs == nil)
}

// TestServeUnreadableExports checks that a daemon does not start if its exports file cannot be
// read, and reports the reason.
func TestServeUnreadableExports(t *testing.T) {
	name := filepath.Join(t.TempDir(), "none")
	status, stdout, stderr := runCommand(t, "serve", "--state", t.TempDir(), "--listen", "127.0.0.1:0", "--tcp", "", "--exports", name)
	assert.NotZero(t, status)
	assert.Empty(t, stdout)
	assert.True(t, strings.HasPrefix(stderr, "nfsrdmad: not serving any export, because the exports have errors:\nexports file "+name+" cannot be read"), stderr)
}
