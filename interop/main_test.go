//go:build interop

package interop

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const (
	bootLimit = 5 * time.Minute // on a busy machine
	execLimit = 4 * time.Minute // for one script in the guest
)

// shared holds the programs and the guest of all tests. A test that ends the
// guest, also by a crash of its kernel, leaves the next test to boot another.
var shared struct {
	build    sync.Once
	dir      string // contains the programs
	guest    *Guest
	ethernet *ethernetNamespace // the guest's network
	err      error
}

// counted is the variable that requests a guest that counts its instructions
// (Options.Counted).
const counted = "INTEROP_COUNTED"

// linuxVersion is the variable that names the version of NFS by which Linux
// mounts nfsrdmad in all tests that do not choose one: "4.1", "4.2", or empty
// for 3.
const linuxVersion = "INTEROP_VERS"

// inside is the variable that tells the test process that it has a mount
// namespace of its own.
const inside = "INTEROP_INSIDE"

func TestMain(m *testing.M) {
	if os.Getuid() == 0 && os.Getenv(inside) == "" {
		os.Exit(runInside())
	}
	status := m.Run()
	if g := shared.guest; g != nil {
		if status != 0 {
			fmt.Fprintf(os.Stderr, "console of the guest:\n%s", g.Console())
		}
		endGuest()
	}
	if shared.dir != "" && os.Getenv(isolatedPrograms) == "" {
		os.RemoveAll(shared.dir)
	}
	os.Exit(status)
}

// runInside runs the tests in a mount namespace, so that no other process sees
// their mounts, and the mounts end with the tests.
func runInside() int {
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Env = append(os.Environ(), inside+"=1")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	// Go makes all mounts private in the new namespace.
	p, err := StartProcessIn(cmd, syscall.CLONE_NEWNS)
	if err != nil {
		fmt.Fprintln(os.Stderr, "no mount namespace:", err)
		return 1
	}
	return p.ExitCode()
}

// buildOnce makes the programs that the tests run.
func buildOnce(t testing.TB) {
	t.Helper()
	needRoot(t)
	shared.build.Do(func() { shared.err = buildPrograms() })
	require.NoError(t, shared.err)
}

func buildPrograms() (err error) {
	if shared.dir = os.Getenv(isolatedPrograms); shared.dir != "" {
		return nil // built by the process that has started this one
	}
	if shared.dir, err = os.MkdirTemp("", "nfsrdma-interop-"); err != nil {
		return err
	}
	if err := os.Chmod(shared.dir, 0o755); err != nil { // some programs run as other users
		return err
	}
	return BuildPrograms(shared.dir)
}

// sharedGuest returns the guest. The first caller builds and boots it, and so does the
// first caller after its end.
func sharedGuest(t testing.TB) *Guest {
	t.Helper()
	buildOnce(t)
	if g := shared.guest; g != nil && g.Ended() {
		t.Logf("the guest of earlier tests has ended; its last words:\n%s", outputTail(g.Console()))
		endGuest()
	}
	if shared.guest == nil && shared.err == nil {
		shared.err = bootGuest(t)
	}
	require.NoError(t, shared.err)
	return shared.guest
}

// endGuest ends the guest and its network. The next test boots another.
func endGuest() {
	if shared.guest != nil {
		shared.guest.Close()
		shared.ethernet.closeNamespace()
		shared.guest, shared.ethernet = nil, nil
	}
}

func needRoot(t testing.TB) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Fatal("the interop tests need root: they capture packets, serve files of several owners, mount, and make namespaces")
	}
}

func bootGuest(t testing.TB) error {
	dir, err := BuildGuest(context.Background(), "guest/build")
	if err != nil {
		return err
	}
	start := time.Now()
	ctx, cancel := context.WithTimeout(context.Background(), bootLimit)
	defer cancel()
	if shared.ethernet, err = newEthernet(); err != nil {
		return err
	}
	processors := 0
	if _, ok := t.(*testing.B); ok {
		processors = 2 // as in the tables of earlier runs
	}
	g, err := Boot(ctx, Options{
		Dir: dir, Forward: []int{2049, 20049, 20048, rpingPort}, Ethernet: shared.ethernet.tap,
		Processors: processors, Counted: os.Getenv(counted) != "",
	})
	if err != nil {
		return err
	}
	shared.guest = g
	t.Logf("guest booted in %.1f s", time.Since(start).Seconds())
	return g.Push(t.Context(), programPath("guestwork"), "/bin/guestwork")
}

func programPath(name string) string { return filepath.Join(shared.dir, name) }

// tryInGuest runs a script in the guest. It may be called in a cleanup.
func tryInGuest(t testing.TB, script string) (out string, status int) {
	t.Helper()
	return tryFor(t, execLimit, script)
}

// tryFor runs a script in the guest and gives up after limit.
func tryFor(t testing.TB, limit time.Duration, script string) (out string, status int) {
	t.Helper()
	ctx, cancel := context.WithTimeoutCause(context.Background(), limit, fmt.Errorf("not done after %v", limit))
	defer cancel()
	g := sharedGuest(t)
	out, status, err := g.Exec(ctx, script)
	if err != nil {
		endUnresponsive(t, g, "true")
	}
	require.NoError(t, err, "%s\n%s", script, outputTail(out))
	return out, status
}

// endUnresponsive ends a guest in which script does not succeed within half a
// minute, so that the next test boots another, and logs the end of the console. It
// reports whether the guest has ended.
func endUnresponsive(t testing.TB, g *Guest, script string) bool {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	out, status, err := g.Exec(ctx, script)
	if err == nil && status == 0 {
		return false
	}
	t.Logf("the guest does not respond: %q: status %d, %v\n%s\nthe end of its console:\n%s", script, status, err, outputTail(out), outputTail(g.Console()))
	g.Close()
	return true
}

// mustInGuest runs a script in the guest that must succeed.
func mustInGuest(t testing.TB, script string) string {
	t.Helper()
	out, status := tryInGuest(t, script)
	require.Zero(t, status, "%s\n%s", script, outputTail(out))
	return out
}

// eventually is require.Eventually, but calls condition in the test's goroutine: condition may end the
// test, and has returned when the test ends.
func eventually(t testing.TB, condition func() bool, limit, every time.Duration, message ...any) {
	t.Helper()
	for end := time.Now().Add(limit); !condition(); time.Sleep(every) {
		if time.Now().After(end) {
			require.FailNow(t, fmt.Sprintf("the condition is false after %v", limit), message...)
		}
	}
}

// outputTail returns the end of a program's output, short enough to read.
func outputTail(out string) string {
	const most = 4000 // bytes
	if len(out) <= most {
		return out
	}
	return "..." + out[len(out)-most:]
}
