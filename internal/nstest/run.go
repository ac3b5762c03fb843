package nstest

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// insideEnv is set in the environment of a process that Main or Run has started.
const insideEnv = "NSTEST_INSIDE"

// setupScript sets new namespaces up as Main and Run describe.
const setupScript = `
mount -t tmpfs -o mode=755 tmpfs /run
ip link set lo up
umount --internal-only --all --lazy --types nfs,nfs4,fuse.nfsrdma`

// Main calls run, which runs a package's tests, in new network and mount
// namespaces, like those of Run, and returns its status. Without root, it calls run
// in the host's namespaces.
func Main(run func() int) int {
	if os.Getenv(insideEnv) != "" || os.Geteuid() != 0 {
		return run()
	}
	fmt.Fprintln(os.Stderr, "new namespaces:", execInNewNamespaces())
	return 1
}

// execInNewNamespaces executes this program again in new namespaces. It returns
// only on failure.
func execInNewNamespaces() error {
	runtime.LockOSThread()
	if err := unix.Unshare(unix.CLONE_NEWNET | unix.CLONE_NEWNS); err != nil {
		return os.NewSyscallError("unshare", err)
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return os.NewSyscallError("mount", err)
	}
	if out, err := exec.Command("sh", "-ec", setupScript).CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	return unix.Exec(self, os.Args, append(os.Environ(), insideEnv+"=the package"))
}

// Run runs test in another process, in new network and mount namespaces. The
// network has only the loopback device, /run is empty, and the host's NFS mounts
// are not mounted. Run needs root.
func Run(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	if os.Getenv(insideEnv) == t.Name() {
		Script(t, setupScript)
		test(t)
		return
	}
	if os.Geteuid() != 0 {
		t.Fatal("this test needs root: it creates namespaces")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("unshare", "--net", "--mount", self, "-test.run=^"+strings.ReplaceAll(t.Name(), "/", "$/^")+"$", "-test.v")
	cmd.Env = append(os.Environ(), insideEnv+"="+t.Name(), "TMPDIR="+t.TempDir())
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := cmd.CombinedOutput()
	if err != nil || !bytes.Contains(out, []byte("--- PASS: "+t.Name())) {
		t.Errorf("in the namespaces: %v\n%s", err, out)
	}
}

// Script runs sh(1) commands, all of which must succeed.
func Script(t *testing.T, script string) {
	t.Helper()
	if out, err := exec.Command("sh", "-ec", script).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", script, err, out)
	}
}

// In calls f in a network namespace of ip-netns(8): sockets that f creates are
// there. f must create them in its own goroutine.
func In(t *testing.T, name string, f func() error) {
	t.Helper()
	done := make(chan error, 1)
	go callInNamespace(name, f, done)
	if err := <-done; err != nil {
		t.Fatal(name+": ", err)
	}
}

// callInNamespace calls f in its own thread, and sends the result to done. The
// process's first thread is not used: /proc/net shows its network.
func callInNamespace(name string, f func() error, done chan<- error) {
	runtime.LockOSThread() // permanently: the thread exits with the goroutine
	if unix.Gettid() == unix.Getpid() {
		other := make(chan error, 1)
		go callInNamespace(name, f, other)
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
