//go:build interop

package interop

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const (
	daemonLimit = 20 * time.Second // to end after SIGTERM, or to react
	closeLimit  = 15 * time.Second // to close the files of a lost client
	pollEvery   = 100 * time.Millisecond
)

// A daemon is nfsrdmad serving one directory as /x, or a file's exports. It can be
// stopped and started again, on the same ports and state.
type daemon struct {
	t         testing.TB
	dir       string
	what      []string // arguments: the exports
	flags     []string
	vers      string // NFS version with which Linux mounts; empty means 3
	rdma, tcp string // host:port
	proc      *Process
	stderr    *sharedBuffer
}

// startDaemon starts a daemon on a new directory; the test's end stops the daemon.
func startDaemon(t testing.TB, flags ...string) *daemon {
	t.Helper()
	return serveDir(t, Served(t), flags...)
}

// serveDir is serve for a given directory.
func serveDir(t testing.TB, dir string, flags ...string) *daemon {
	t.Helper()
	return startDaemonWith(t, dir, []string{dir + "=/x"}, flags...)
}

// serveExports serves a file's exports, all of them below dir.
func serveExports(t testing.TB, dir, file string, flags ...string) *daemon {
	t.Helper()
	return startDaemonWith(t, dir, []string{"--exports", file}, flags...)
}

func startDaemonWith(t testing.TB, dir string, what []string, flags ...string) *daemon {
	t.Helper()
	buildOnce(t)
	d := &daemon{t: t, dir: dir, what: what, rdma: reservedAddr(t), tcp: reservedAddr(t), stderr: new(sharedBuffer)}
	d.flags = append(flags, "--state", t.TempDir())
	if !slices.Contains(flags, "--vers") {
		d.vers = os.Getenv(linuxVersion)
	}
	d.startProcess()
	t.Cleanup(func() {
		d.proc.Kill()
		if t.Failed() {
			t.Logf("nfsrdmad says:\n%s", outputTail(d.stderr.String()))
		}
	})
	return d
}

// given has the addresses that unused has returned. None of them is returned again: a
// daemon has two, and listens at neither yet when it gets the second.
var given sync.Map

// reservedAddr returns an address with a port that stays free while the daemon is
// down: the system never gives it to an outgoing connection.
func reservedAddr(t testing.TB) string {
	t.Helper()
	first := uint(32768) // first port for outgoing connections
	if b, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range"); err == nil {
		_, _ = fmt.Sscan(string(b), &first)
	}
	const lowest = 2048
	var err error
	for range 100 {
		var l net.Listener
		l, err = net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", lowest+rand.UintN(first-lowest)))
		if err != nil {
			continue
		}
		l.Close()
		if _, twice := given.LoadOrStore(l.Addr().String(), true); !twice {
			return l.Addr().String()
		}
	}
	t.Fatalf("no port below %d is free: %v", first, err)
	return ""
}

// startProcess runs the daemon.
func (d *daemon) startProcess() {
	d.t.Helper()
	args := append([]string{"--listen", d.rdma, "--tcp", d.tcp, "--control", ""}, d.flags...)
	server, err := StartServer(d.stderr, programPath("nfsrdmad"), append(args, d.what...)...)
	require.NoError(d.t, err, "nfsrdmad says: %s", d.stderr)
	d.proc, d.rdma, d.tcp = server.Process, server.RDMA, server.TCP
}

// stopGracefully makes the daemon drain and end.
func (d *daemon) stopGracefully() {
	d.t.Helper()
	d.proc.Signal(syscall.SIGTERM)
	select {
	case <-d.proc.Done():
		assert.Zero(d.t, d.proc.ExitCode(), "exit status after SIGTERM")
	case <-time.After(daemonLimit):
		d.t.Fatalf("nfsrdmad still runs %v after SIGTERM", daemonLimit)
	}
}

// guestSite returns the site for the guest.
func (d *daemon) guestSite() guestSite {
	return guestSite{
		host: "10.0.2.2", export: "/x", rdma: portOf(d.t, d.rdma), tcp: portOf(d.t, d.tcp), mountd: portOf(d.t, d.tcp),
		vers: d.vers, servedDir: hostDir(d.dir),
	}
}

func portOf(t testing.TB, addr string) int {
	_, p, err := net.SplitHostPort(addr)
	require.NoError(t, err)
	n, err := strconv.Atoi(p)
	require.NoError(t, err)
	return n
}

// openFiles counts the daemon's open files.
func (d *daemon) openFiles() int {
	dir := filepath.Join("/proc", strconv.Itoa(d.proc.PID()), "fd")
	entries, err := os.ReadDir(dir)
	require.NoError(d.t, err)
	n := 0
	for _, e := range entries {
		switch of, _ := os.Readlink(filepath.Join(dir, e.Name())); of {
		case "anon_inode:inotify", "anon_inode:[signalfd]": // from the first lease on, and inotify's for changes of names
		default:
			n++
		}
	}
	return n
}

// peakMemory returns the largest memory use of the daemon so far, in bytes.
func (d *daemon) peakMemory() int64 {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", d.proc.PID()))
	require.NoError(d.t, err)
	_, after, _ := strings.Cut(string(status), "VmHWM:")
	var kib int64
	_, err = fmt.Sscan(after, &kib)
	require.NoError(d.t, err)
	return kib << 10
}

// checkDescriptors asserts that the number of open descriptors is as before, at the
// latest some seconds after the last client has gone.
func (d *daemon) checkDescriptors(before int) {
	d.t.Helper()
	deadline := time.Now().Add(closeLimit)
	for d.openFiles() > before && time.Now().Before(deadline) {
		time.Sleep(pollEvery)
	}
	if now := d.openFiles(); now > before {
		out, _ := exec.Command("ls", "-l", fmt.Sprintf("/proc/%d/fd", d.proc.PID())).CombinedOutput()
		d.t.Errorf("%d files are open, %d before:\n%s", now, before, outputTail(string(out)))
	}
}

// listGoroutines ends the daemon and lists its goroutines, one line each: the
// function that started the goroutine. It omits those of the Go runtime, and
// those that a pool of the daemon keeps for the next call.
func (d *daemon) listGoroutines() []string {
	d.t.Helper()
	d.proc.Signal(syscall.SIGQUIT)
	<-d.proc.Done()
	var started []string
	for _, stack := range strings.Split(d.stderr.String(), "\n\n") {
		// 0 is not a goroutine: the thread that got the signal had nothing to do.
		if strings.HasPrefix(stack, "goroutine ") && !strings.HasPrefix(stack, "goroutine 0 ") && isBusy(stack) {
			_, by, _ := strings.Cut(stack, "\ncreated by ") // nothing for the first
			by, _, _ = strings.Cut(by, " in goroutine")
			started = append(started, by)
		}
	}
	return started
}

// frame matches the function of a stack's frame.
var frame = regexp.MustCompile(`(?m)^([^\s(]\S*)\(.*\)$`)

// isBusy reports whether a stack has a frame outside the Go runtime and outside a
// pool's wait for the next task.
func isBusy(stack string) bool {
	for _, f := range frame.FindAllStringSubmatch(stack, -1) {
		if !strings.HasPrefix(f[1], "runtime.") && !strings.Contains(f[1], "/internal/workpool.(*Pool).") {
			return true
		}
	}
	return false
}
