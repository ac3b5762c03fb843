package fusefs

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/oncrpc"
)

// hangCalls makes all calls wait until speak is called. hangs gets the procedure of
// each waiting call.
func (m *testMount) hangCalls() (hangs chan uint32, speak func()) {
	hangs, over := make(chan uint32, 1000), make(chan struct{})
	m.setDown(true)
	m.setBefore(func(ctx context.Context, x *oncrpc.Exchange) error {
		hangs <- x.Proc
		select {
		case <-over:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	})
	return hangs, func() {
		m.setDown(false)
		m.setBefore(nil)
		close(over)
	}
}

// startReader runs a program that reads a file.
func startReader(t testing.TB, path string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command("cat", path)
	require.NoError(t, cmd.Start())
	return cmd
}

// TestKill checks that a killed program ends although it waits for a dead
// server, and that a signal that could be caught does not end the wait.
func TestKill(t *testing.T) {
	s, m := newMount(t)
	writeFile(t, s.path("a"), []byte("x"))
	writeFile(t, s.path("b"), []byte("x"))
	hangs, speak := m.hangCalls()
	cmd := startReader(t, m.path("a"))
	<-hangs
	require.NoError(t, cmd.Process.Signal(syscall.SIGSTOP))
	require.NoError(t, cmd.Process.Signal(syscall.SIGCONT))
	time.Sleep(3 * killPoll) // a caught signal would end the wait by now
	require.NoError(t, cmd.Process.Kill())
	err := cmd.Wait()
	status, ok := err.(*exec.ExitError)
	require.True(t, ok, "%v", err)
	assert.Equal(t, syscall.SIGKILL, status.Sys().(syscall.WaitStatus).Signal())

	other := startReader(t, m.path("b")) // a program that is not killed continues to wait
	<-hangs
	require.NoError(t, other.Process.Signal(syscall.SIGCHLD))
	speak()
	assert.NoError(t, other.Wait())
}

// actWhenTold is a child that does something to a file once it is told to.
func actWhenTold(args []string) error {
	what, name := args[0], args[1]
	var f *os.File
	if flags, opens := map[string]int{"write": unix.O_DIRECT, "exit": 0, "exec": 0}[what]; opens {
		var err error
		if f, err = os.OpenFile(name, os.O_RDWR|flags, 0); err != nil {
			return err
		}
	}
	fmt.Println("ready")
	if _, err := os.Stdin.Read(make([]byte, 1)); err != nil {
		return err
	}
	var err error
	switch what {
	case "read":
		_, err = os.ReadFile(name)
	case "write":
		_, err = f.Write(randomBytes(8 << 10))
	case "make":
		_, err = os.Create(name)
	case "rename":
		err = os.Rename(name, name+"2")
	case "remove":
		err = os.Remove(name)
	case "exit": // exiting closes the file
		_, err = f.WriteString("kept")
		fmt.Println("written")
		time.Sleep(time.Hour)
	case "close":
		err = os.WriteFile(name, []byte("kept"), 0o644)
	case "exec": // executing another program closes the file
		if _, err = f.WriteString("kept"); err == nil {
			err = unix.Exec("/bin/true", []string{"true"}, nil)
		}
	}
	return err
}

// TestKillUp kills programs whose calls the server delays while the server
// answers others. The test checks that the programs end, that their calls
// continue, and that the effects of the calls are seen when done.
func TestKillUp(t *testing.T) {
	s, m := newMount(t)
	waits := map[string]uint32{
		"read": nfs3.ProcRead, "write": nfs3.ProcWrite, "make": nfs3.ProcCreate, "rename": nfs3.ProcRename,
		"remove": nfs3.ProcRemove, "close": nfs3.ProcWrite, "exit": nfs3.ProcWrite,
	}
	cmds := make(map[string]*exec.Cmd)
	ready := make(map[string]*bufio.Scanner)
	var tell []io.Writer
	for what := range waits {
		require.NoError(t, os.Mkdir(s.path(what), 0o755)) // the kernel locks a directory while it changes a name
		if what != "make" {
			writeFile(t, s.path(what+"/f"), randomBytes(8<<10))
		}
		cmd := newChild(t, nil, "act", what, m.path(what+"/f"))
		in, err := cmd.StdinPipe()
		require.NoError(t, err)
		out, err := cmd.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		cmds[what], ready[what], tell = cmd, bufio.NewScanner(out), append(tell, in)
	}
	for _, r := range ready {
		require.True(t, r.Scan())
	}
	hangs, over := make(chan uint32, 1000), make(chan struct{})
	m.setBefore(func(ctx context.Context, x *oncrpc.Exchange) error {
		for _, proc := range waits {
			if x.Prog != nfs3.Program || x.Proc != proc {
				continue
			}
			hangs <- proc
			select {
			case <-over:
				return nil
			case <-ctx.Done():
				t.Error("gave up", nfs3.ProcName(x.Proc))
				return context.Cause(ctx)
			}
		}
		return nil
	})
	speak := sync.OnceFunc(func() { close(over) })
	end := time.AfterFunc(time.Minute, speak)
	t.Cleanup(func() { end.Stop(); speak() })
	for _, in := range tell {
		_, err := in.Write([]byte("x"))
		require.NoError(t, err)
	}
	for what := range cmds {
		if what == "exit" { // this program calls when it is killed
			require.True(t, ready[what].Scan())
			continue
		}
		select {
		case <-hangs:
		case <-time.After(30 * time.Second):
			require.Fail(t, "not all programs call")
		}
	}
	for what, cmd := range cmds {
		require.NoError(t, cmd.Process.Kill(), what)
	}
	for what, cmd := range cmds {
		err := cmd.Wait()
		status, ok := err.(*exec.ExitError)
		require.True(t, ok, "%s: %v", what, err)
		assert.Equal(t, syscall.SIGKILL, status.Sys().(syscall.WaitStatus).Signal(), what)
	}
	select {
	case <-over:
		t.Error("they wait for the server")
	default:
	}
	for _, name := range []string{"make/f", "rename/f2"} {
		_, err := os.Lstat(m.path(name))
		assert.ErrorIs(t, err, os.ErrNotExist)
	}
	for _, name := range []string{"rename/f", "remove/f"} {
		_, err := os.Lstat(m.path(name))
		assert.NoError(t, err)
	}
	speak()
	require.Eventually(t, func() bool {
		m.ops.mu.Lock()
		defer m.ops.mu.Unlock()
		return m.ops.lateCount == 0
	}, 30*time.Second, time.Millisecond)
	m.setBefore(nil)
	for _, name := range []string{"make/f", "rename/f2"} {
		assert.Eventually(t, func() bool {
			_, err := os.Lstat(m.path(name))
			return err == nil
		}, 10*time.Second, time.Millisecond, name)
	}
	for _, name := range []string{"rename/f", "remove/f"} {
		_, err := os.Lstat(m.path(name))
		assert.ErrorIs(t, err, os.ErrNotExist)
	}
	assertContent(t, m.path("read/f"), randomBytes(8<<10))
	assertContent(t, s.path("write/f"), randomBytes(8<<10))
	assertContent(t, m.path("close/f"), []byte("kept"))
	assertContent(t, m.path("exit/f"), append([]byte("kept"), randomBytes(8 << 10)[4:]...))
	for _, n := range m.table.listNodes() {
		assert.Zero(t, n.lateChanges.Load())
	}
	assert.Eventually(t, func() bool {
		m.files.mu.RLock()
		defer m.files.mu.RUnlock()
		return len(m.files.all) == 0
	}, 30*time.Second, time.Millisecond, "open files")
}

// TestExecCloses lets a program wait for the server because it executes another program with
// a file open that is to be closed then. The test checks that others can use the mount:
// Linux lets those who ask for the process's state wait too.
func TestExecCloses(t *testing.T) {
	s, m := newMount(t)
	writeFile(t, s.path("f"), []byte("text"))
	cmd := newChild(t, nil, "act", "exec", m.path("f"))
	cmd.Stdin = strings.NewReader("x")
	hangs, over := make(chan struct{}, 1000), make(chan struct{})
	m.setBefore(func(_ context.Context, x *oncrpc.Exchange) error {
		if x.Prog == nfs3.Program && x.Proc == nfs3.ProcWrite {
			hangs <- struct{}{}
			<-over
		}
		return nil
	})
	require.NoError(t, cmd.Start())
	<-hangs
	time.Sleep((killPolls + 1) * killPoll)
	looked := make(chan error, 1)
	go func() {
		_, err := os.Stat(m.path("none"))
		looked <- err
	}()
	select {
	case err := <-looked:
		assert.ErrorIs(t, err, os.ErrNotExist)
	case <-time.After(10 * time.Second):
		assert.Fail(t, "the mount hangs")
		assert.NoError(t, cmd.Process.Kill())
	}
	close(over)
	assert.NoError(t, cmd.Wait())
	assertContent(t, s.path("f"), []byte("kept"))
}

// TestAbortDead checks a forced unmount while the server does not answer.
func TestAbortDead(t *testing.T) {
	s := newServer(t, nil)
	m := s.mount(nil)
	writeFile(t, s.path("a"), []byte("x"))
	hangs, speak := m.hangCalls()
	cmd := startReader(t, m.path("a"))
	<-hangs
	require.NoError(t, unix.Unmount(m.dir, unix.MNT_DETACH|unix.MNT_FORCE))
	assert.Error(t, cmd.Wait())
	m.Wait()
	speak()
}

// TestProcess checks the parsing of /proc/PID/status, and killed.
func TestProcess(t *testing.T) {
	pid := uint32(os.Getpid())
	assert.False(t, isKilled(pid))
	assert.True(t, isKilled(1<<31-1))
	assert.False(t, isKilled(0))
	text := []byte("Name:\tx\nGroups:\t0 7 4000000000 \nSigPnd:\t0000000000000100\nShdPnd:\t0\n")
	assert.Equal(t, "0 7 4000000000", string(statusField(text, "Groups")))
	assert.Empty(t, statusField(text, "None"))
}

// TestGroupsOfAnother checks that a process that reuses the number of a
// request's process lends no groups to the request.
func TestGroupsOfAnother(t *testing.T) {
	needFUSE(t) // also checks for root
	cmd := exec.Command("sleep", "100")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 4000, Gid: 7, Groups: []uint32{7, 8, 9}}}
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		assert.NoError(t, cmd.Process.Kill())
		assert.Error(t, cmd.Wait())
	})
	of := func(uid, gid uint32) []uint32 {
		from := fuse.Caller{Pid: uint32(cmd.Process.Pid)}
		from.Uid, from.Gid = uid, gid
		list, _ := supplementaryGroups(&from)
		return list
	}
	assert.Equal(t, []uint32{8, 9}, of(4000, 7))
	assert.Empty(t, of(4001, 7))
	assert.Empty(t, of(4000, 8))
}
