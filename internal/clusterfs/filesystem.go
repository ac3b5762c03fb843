package clusterfs

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// Options are a FileSystem's properties. The zero value releases the locks of a silent
// host at once, and executes its late operations.
type Options struct {
	// Silence is how long a host is stopped or cut off until the engine regards its
	// connection as lost. 0 means 1 s. The connection of a mount process that has
	// exited is lost at once.
	Silence time.Duration

	// KeepLocks is the time from the loss of a host's connection until the engine
	// gives the host up: it releases the host's locks. Never keeps them until Fence.
	KeepLocks time.Duration

	// Fences makes the engine reject everything from a host that it has given up,
	// with ESHUTDOWN. Otherwise the engine executes late operations.
	Fences bool

	// Cache is how long kernels cache attributes and names. 0 means 1 s; a negative
	// value disables the cache.
	Cache time.Duration
}

// Never is the value of Options.KeepLocks that keeps the locks of a silent host.
const Never = time.Duration(1<<63 - 1)

// A FileSystem is a shared file system, as its test sees it.
type FileSystem struct {
	// Backing is the directory with the files.
	Backing string

	t      testing.TB
	dir    string // with Backing, the mounts and the socket
	socket string
}

// Start starts an engine, which ends with the test. TestMain must call RunCommand
// first.
func Start(t testing.TB, o Options) *FileSystem {
	t.Helper()
	if o.Silence == 0 {
		o.Silence = time.Second
	}
	if o.Cache == 0 {
		o.Cache = time.Second
	}
	dir, err := os.MkdirTemp("", "clusterfs-") // short, for a socket, and open to all users
	require.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	require.NoError(t, os.Chmod(dir, 0o755))
	f := &FileSystem{t: t, dir: dir, Backing: filepath.Join(dir, "backing"), socket: filepath.Join(dir, "socket")}
	require.NoError(t, os.Mkdir(f.Backing, 0o755))
	options, err := json.Marshal(o)
	require.NoError(t, err)
	cmd := exec.Command(executable(), commandWord, "engine", f.socket, f.Backing, string(options))
	stdin, err := cmd.StdinPipe() // the engine exits when it is closed
	require.NoError(t, err)
	f.startCommand(cmd)
	t.Cleanup(func() {
		stdin.Close()
		cmd.Wait()
	})
	return f
}

// startCommand starts a command of this package, and waits until it is ready.
func (f *FileSystem) startCommand(cmd *exec.Cmd) {
	f.t.Helper()
	cmd.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0")
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	require.NoError(f.t, err)
	require.NoError(f.t, cmd.Start())
	ready := make([]byte, len(readyLine))
	_, err = io.ReadFull(out, ready)
	require.NoError(f.t, err, cmd.Args)
}

// Fence ends the sessions of a host at once: it waits for the host's operations that
// are being executed, releases the host's locks, and rejects everything that the host's
// current mounts send later. A mount that is created later is served.
func (f *FileSystem) Fence(host string) { f.control("fence", host) }

// FenceCommand returns a command that does what Fence does for the host that its last
// argument names.
func (f *FileSystem) FenceCommand() []string {
	return []string{executable(), commandWord, "control", f.socket, "fence"}
}

// Records returns what the engine has executed and rejected, in this order: changes,
// reads, fsyncs, opens and locks.
func (f *FileSystem) Records() (list []Record) {
	f.t.Helper()
	file := filepath.Join(f.dir, "records")
	f.control("records", file)
	b, err := os.ReadFile(file)
	require.NoError(f.t, err)
	require.NoError(f.t, json.Unmarshal(b, &list))
	return list
}

// control lets the engine execute a command of engine.control.
func (f *FileSystem) control(command ...any) {
	f.t.Helper()
	require.NoError(f.t, control(f.socket, fmt.Sprintln(command...)))
}

func control(socket, command string) error {
	fd, err := dial(socket, command)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	n, err := readMessage(fd, make([]byte, 16))
	if err == nil && n == 0 {
		err = fmt.Errorf("the engine does not execute %q", command)
	}
	return err
}
