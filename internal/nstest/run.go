package nstest

import (
	"bytes"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// inside is set in the environment of a process that Run has started.
const inside = "NSTEST_INSIDE"

// Run runs test in another process, in new namespaces of networks and mounts. The
// network is the loopback device alone, and /run is empty. Run needs root.
func Run(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	if os.Getenv(inside) == t.Name() {
		if err := unix.Mount("tmpfs", "/run", "tmpfs", 0, "mode=755"); err != nil {
			t.Fatal("mount of /run: ", err)
		}
		Script(t, "ip link set lo up")
		test(t)
		return
	}
	if os.Geteuid() != 0 {
		t.Fatal("this test needs root: it makes namespaces")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("unshare", "--net", "--mount", self, "-test.run=^"+strings.ReplaceAll(t.Name(), "/", "$/^")+"$", "-test.v")
	cmd.Env = append(os.Environ(), inside+"="+t.Name(), "TMPDIR="+t.TempDir())
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := cmd.CombinedOutput()
	if err != nil || !bytes.Contains(out, []byte("--- PASS: "+t.Name())) {
		t.Errorf("in the namespaces: %v\n%s", err, out)
	}
}

// Script runs commands of sh(1), all of which must succeed.
func Script(t *testing.T, script string) {
	t.Helper()
	if out, err := exec.Command("sh", "-ec", script).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", script, err, out)
	}
}

// In calls f with a network namespace of ip-netns(8): sockets that f makes are there. f
// must make them in its own goroutine.
func In(t *testing.T, name string, f func() error) {
	t.Helper()
	done := make(chan error, 1)
	go enter(name, f, done)
	if err := <-done; err != nil {
		t.Fatal(name+": ", err)
	}
}

// enter calls f in a thread of its own, and tells done of the end. The process's first
// thread does not do: /proc/net shows its network.
func enter(name string, f func() error, done chan<- error) {
	runtime.LockOSThread() // for ever: the thread ends with the goroutine
	if unix.Gettid() == unix.Getpid() {
		other := make(chan error, 1)
		go enter(name, f, other)
		done <- <-other
		runtime.UnlockOSThread()
		return
	}
	ns, err := os.Open("/run/netns/" + name)
	if err == nil {
		defer ns.Close()
		err = unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET)
	}
	if err == nil {
		err = f()
	}
	done <- err
}
