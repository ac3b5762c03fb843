package fusefs

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/vfs"
)

// noSpace is the error of a fakeFullFS.
var noSpace error = unix.ENOSPC

// newFullMount returns a server that can be full, and a mount of it.
func newFullMount(t testing.TB) (*fakeFullFS, *testServer, *testMount) {
	t.Helper()
	full := new(fakeFullFS)
	s := newServer(t, func(fs vfs.FS) vfs.FS { full.FS = fs; return full })
	return full, s, s.mount(nil)
}

// loseWrite writes data to a file while the server rejects data.
func (f *fakeFullFS) loseWrite(t testing.TB, to *os.File) {
	t.Helper()
	f.full.Store(&noSpace)
	_, err := to.WriteAt([]byte("lost"), 0)
	require.NoError(t, err, "the error is unknown yet")
}

// awaitExit runs a program that must end within a minute.
func awaitExit(t testing.TB, cmd *exec.Cmd) error {
	t.Helper()
	require.NoError(t, cmd.Start())
	end := time.AfterFunc(time.Minute, func() { _ = cmd.Process.Kill() })
	defer end.Stop()
	return cmd.Wait()
}

// TestLossOfCopy checks that a process that inherits a descriptor and exits
// does not consume the report that the writer's fsync or close must give.
func TestLossOfCopy(t *testing.T) {
	full, _, m := newFullMount(t)
	for _, byClose := range []bool{false, true} {
		f := openAt(t, m.path(fmt.Sprint(byClose)), os.O_RDWR|os.O_CREATE)
		full.loseWrite(t, f)
		child := exec.Command("/bin/true")
		child.ExtraFiles = []*os.File{f}
		require.NoError(t, awaitExit(t, child))
		if !byClose {
			assert.ErrorIs(t, f.Sync(), unix.ENOSPC)
			assert.NoError(t, f.Sync(), "once")
			assert.NoError(t, f.Close(), "once")
			continue
		}
		assert.ErrorIs(t, f.Close(), unix.ENOSPC)
	}
}

// TestLossOfAll checks that each open file of the node reports a loss,
// regardless of earlier reports to others.
func TestLossOfAll(t *testing.T) {
	full, _, m := newFullMount(t)
	f := openAt(t, m.path("a"), os.O_RDWR|os.O_CREATE)
	g, h, r := openAt(t, m.path("a"), os.O_RDWR), openAt(t, m.path("a"), os.O_RDWR), openAt(t, m.path("a"), os.O_RDONLY)
	full.loseWrite(t, f)
	assert.ErrorIs(t, g.Close(), unix.ENOSPC)
	assert.ErrorIs(t, h.Sync(), unix.ENOSPC)
	assert.ErrorIs(t, r.Sync(), unix.ENOSPC)
	assert.ErrorIs(t, f.Sync(), unix.ENOSPC)
	late := openAt(t, m.path("a"), os.O_RDWR)
	assert.NoError(t, late.Sync(), "an error before the open, already reported")
	full.full.Store(nil)
	_, err := late.WriteString("kept")
	require.NoError(t, err)
	for _, f := range []*os.File{h, late, f} {
		assert.NoError(t, f.Close())
	}
}

// TestLossLater checks that a failure that no fsync has reported is reported by
// the next fsync of any later opener, unless the file is emptied first.
func TestLossLater(t *testing.T) {
	full, s, m := newFullMount(t)
	f := openAt(t, m.path("a"), os.O_RDWR|os.O_CREATE)
	full.loseWrite(t, f)
	assert.ErrorIs(t, f.Close(), unix.ENOSPC)
	full.full.Store(nil)
	f = openAt(t, m.path("a"), os.O_RDWR)
	_, err := f.WriteString("new")
	assert.NoError(t, err)
	assert.NoError(t, f.Close(), "another close reported it")
	f = openAt(t, m.path("a"), os.O_RDONLY)
	assert.ErrorIs(t, f.Sync(), unix.ENOSPC)
	f = openAt(t, m.path("a"), os.O_RDONLY)
	assert.NoError(t, f.Sync())

	f = openAt(t, m.path("a"), os.O_RDWR)
	full.loseWrite(t, f)
	assert.ErrorIs(t, f.Close(), unix.ENOSPC)
	full.full.Store(nil)
	f = openAt(t, m.path("a"), os.O_RDWR|os.O_TRUNC)
	_, err = f.WriteString("fine")
	require.NoError(t, err)
	assert.NoError(t, f.Sync())
	assert.NoError(t, f.Close())
	assertContent(t, s.path("a"), []byte("fine"))
}

// TestLossBeforeChange checks that other changes of the file send the data
// first, but do not report its loss.
func TestLossBeforeChange(t *testing.T) {
	full, s, m := newFullMount(t)
	for name, change := range map[string]func(f *os.File) error{
		"chmod":  func(f *os.File) error { return f.Chmod(0o600) },
		"resize": func(f *os.File) error { return f.Truncate(100) },
		"empty":  func(f *os.File) error { return f.Truncate(0) },
		"times":  func(f *os.File) error { return os.Chtimes(f.Name(), time.Now(), time.Now()) },
		"stat":   func(f *os.File) error { _, err := os.Stat(f.Name()); return err },
		"rename": func(f *os.File) error { return os.Rename(f.Name(), f.Name()+"2") },
		"remove": func(f *os.File) error { return os.Remove(f.Name()) },
	} {
		t.Run(name, func(t *testing.T) {
			writeFile(t, s.path(name), nil)
			f := openAt(t, m.path(name), os.O_RDWR)
			full.loseWrite(t, f)
			assert.NoError(t, change(f))
			assert.ErrorIs(t, f.Close(), unix.ENOSPC)
			switch name {
			case "remove":
				return
			case "rename":
				name += "2"
			}
			err := openAt(t, m.path(name), os.O_RDONLY).Sync()
			if name == "empty" { // an emptied file has no losses
				assert.NoError(t, err)
			} else {
				assert.ErrorIs(t, err, unix.ENOSPC, "no fsync has reported it yet")
			}
		})
	}
}

// TestLossInWrite checks that a later write reports a loss too, once.
func TestLossInWrite(t *testing.T) {
	full, _, m := newFullMount(t)
	full.full.Store(&noSpace)
	f := openAt(t, m.path("a"), os.O_RDWR|os.O_CREATE)
	data := make([]byte, maxTransfer)
	var err error
	for range 1000 {
		if _, err = f.Write(data); err != nil {
			break
		}
	}
	require.ErrorIs(t, err, unix.ENOSPC)
	assert.ErrorIs(t, f.Sync(), unix.ENOSPC)
	_, err = f.WriteAt([]byte("x"), 0)
	assert.NoError(t, err)
	full.full.Store(nil)
	assert.NoError(t, f.Close())
}

// TestLossInOneWrite checks that a write that reports a loss leaves the reports
// of fsync, and that fsync leaves those of writes.
func TestLossInOneWrite(t *testing.T) {
	full, _, m := newFullMount(t)
	f := openAt(t, m.path("a"), os.O_RDWR|os.O_CREATE)
	g, h := openAt(t, m.path("a"), os.O_RDWR), openAt(t, m.path("a"), os.O_RDWR)
	full.loseWrite(t, f)
	mustLstat(t, m.path("a")) // sends the data
	full.full.Store(nil)
	_, err := f.WriteAt([]byte("x"), 0)
	require.ErrorIs(t, err, unix.ENOSPC)
	_, err = f.WriteAt([]byte("x"), 0)
	assert.NoError(t, err, "once")
	assert.ErrorIs(t, openAt(t, m.path("a"), os.O_RDONLY).Sync(), unix.ENOSPC, "no fsync has reported it yet")
	assert.NoError(t, openAt(t, m.path("a"), os.O_RDONLY).Sync())
	assert.ErrorIs(t, g.Sync(), unix.ENOSPC)
	_, err = h.WriteAt([]byte("x"), 0)
	assert.ErrorIs(t, err, unix.ENOSPC)
	assert.ErrorIs(t, f.Sync(), unix.ENOSPC)
	assert.ErrorIs(t, h.Sync(), unix.ENOSPC)
}

// writeBetween is a child that opens a file, and writes to it when told to.
func writeBetween(args []string) error {
	f, err := os.OpenFile(args[0], os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	fmt.Println("open")
	if _, err := os.Stdin.Read(make([]byte, 1)); err != nil {
		return err
	}
	if _, err := f.WriteAt([]byte("by another"), 4096); err != nil {
		return err
	}
	fmt.Println("wrote")
	_, err = io.Copy(io.Discard, os.Stdin)
	return err // it exits and ignores the result of close
}

// TestLossOfAnother checks that a write by another user first sends the data of
// the first user, and that its loss is still reported to the first user.
func TestLossOfAnother(t *testing.T) {
	full, s, m := newFullMount(t)
	writeFile(t, s.path("a"), nil)
	require.NoError(t, os.Chmod(s.path("a"), 0o666))
	other := newChild(t, &syscall.Credential{Uid: 1234, Gid: 1234}, "write", m.path("a"))
	in, err := other.StdinPipe()
	require.NoError(t, err)
	out, err := other.StdoutPipe()
	require.NoError(t, err)
	said := bufio.NewScanner(out)
	require.NoError(t, other.Start())
	end := time.AfterFunc(time.Minute, func() { _ = other.Process.Kill() })
	t.Cleanup(func() { end.Stop(); in.Close(); _ = other.Wait() })
	require.True(t, said.Scan())

	f := openAt(t, m.path("a"), os.O_RDWR)
	full.loseWrite(t, f)
	_, err = in.Write([]byte("x"))
	require.NoError(t, err)
	require.True(t, said.Scan(), "its own data are taken")
	full.full.Store(nil)
	assert.ErrorIs(t, f.Sync(), unix.ENOSPC)
	assert.NoError(t, f.Close())
	require.NoError(t, in.Close())
	require.NoError(t, other.Wait())
	got, err := os.ReadFile(s.path("a"))
	require.NoError(t, err)
	require.Len(t, got, 4096+len("by another"))
	assert.Equal(t, "by another", string(got[4096:]))
}

// fsyncInherited is a child that calls fsync on an inherited descriptor when
// told to.
func fsyncInherited([]string) error {
	if _, err := os.Stdin.Read(make([]byte, 1)); err != nil {
		return err
	}
	return os.NewFile(4, "").Sync()
}

// TestLossAfterKill checks that an abandoned fsync has not reported anything.
func TestLossAfterKill(t *testing.T) {
	for name, before := range map[string]bool{"lost before": true, "lost after": false} {
		t.Run(name, func(t *testing.T) { lossAfterKill(t, before) })
	}
}

func lossAfterKill(t *testing.T, before bool) {
	full, _, m := newFullMount(t)
	f := openAt(t, m.path("a"), os.O_RDWR|os.O_CREATE)
	cmd := newChild(t, nil, "fsync")
	cmd.ExtraFiles = append(cmd.ExtraFiles, f)
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start()) // it closes its copies of f, which needs a server that responds
	full.loseWrite(t, f)
	if before {
		closes := exec.Command("/bin/true")
		closes.ExtraFiles = []*os.File{f}
		require.NoError(t, awaitExit(t, closes))
		full.full.Store(nil)
		_, err = openAt(t, m.path("a"), os.O_WRONLY).WriteAt([]byte("more"), 0)
		require.NoError(t, err)
	}
	hangs, speak := m.hangCalls()
	over := sync.OnceFunc(speak)
	t.Cleanup(over)
	end := time.AfterFunc(30*time.Second, over) // otherwise nothing ends it
	defer end.Stop()
	_, err = in.Write([]byte("x"))
	require.NoError(t, err)
	for proc := uint32(0); proc != nfs3.ProcWrite; {
		select {
		case proc = <-hangs:
		case <-time.After(30 * time.Second):
			require.Fail(t, "fsync does not write")
		}
	}
	require.NoError(t, cmd.Process.Kill())
	time.Sleep(2 * killPoll) // fsync is abandoned here
	over()
	assert.Error(t, cmd.Wait())
	assert.ErrorIs(t, f.Sync(), unix.ENOSPC)
}

// TestLossIsSeen checks that reads of lost data return the server's data, even
// through the descriptor of the write.
func TestLossIsSeen(t *testing.T) {
	full, s, m := newFullMount(t)
	writeFile(t, s.path("a"), []byte("kept")) // as long as the lost data
	f := openAt(t, m.path("a"), os.O_RDWR)
	_, err := f.ReadAt(make([]byte, 4), 0) // fills the kernel's page cache
	require.NoError(t, err)
	full.loseWrite(t, f)
	got := make([]byte, 10)
	n, _ := f.ReadAt(got, 0)
	if string(got[:n]) == "lost" { // not sent yet
		assert.ErrorIs(t, f.Sync(), unix.ENOSPC)
	}
	n, err = f.ReadAt(got, 0)
	assert.Equal(t, io.EOF, err)
	assert.Equal(t, "kept", string(got[:n]))
	info, err := f.Stat()
	require.NoError(t, err)
	assert.EqualValues(t, 4, info.Size())
}

// TestLossForgotten checks that a node that the kernel forgets leaves its
// unreported loss to the next node of the same file, up to a limit.
func TestLossForgotten(t *testing.T) {
	m := &Mount{cfg: Config{Log: discard}}
	m.table = newTable(m, nfs3.FH("root"))
	root := m.table.findNode(1)
	forget := func(n *node) {
		m.table.removeAllNames(n) // otherwise it is parked
		m.Forget(n.id, 1)
	}
	node := func(i int) *node {
		n, _ := m.table.referNode(nfs3.FH(fmt.Sprint(i)), root, fmt.Sprint(i), sighting{})
		return n
	}
	for i := range maxUnclaimed + 2 {
		n := node(i)
		n.ensurePending().losses.add(noSpace)
		forget(n)
		assert.Nil(t, m.table.findNode(n.id))
	}
	assert.Len(t, m.table.listUnreported(), maxUnclaimed)
	assert.Nil(t, node(0).pending.Load(), "the oldest")
	n := node(2)
	var f reportedSeq = n.ensurePending().losses.reportedAtOpen()
	assert.ErrorIs(t, n.ensurePending().losses.fsyncError(&f), noSpace)
	forget(n)
	assert.Nil(t, node(2).pending.Load(), "told")
	assert.Len(t, m.table.unclaimed.order, len(m.table.unclaimed.all))
	assert.Len(t, m.table.listUnreported(), maxUnclaimed-1)
}
