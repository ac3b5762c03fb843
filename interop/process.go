package interop

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// A Process is a running program that ends at the latest with this process,
// however this process ends.
type Process struct {
	cmd  *exec.Cmd
	done chan struct{}
}

// StartProcess starts cmd. The kernel kills it when this process ends.
func StartProcess(cmd *exec.Cmd) (*Process, error) { return StartProcessIn(cmd, 0) }

// StartProcessIn starts cmd in new namespaces, given by unshare(2) flags.
func StartProcessIn(cmd *exec.Cmd, namespaces uintptr) (*Process, error) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Unshareflags: namespaces}
	p := &Process{cmd: cmd, done: make(chan struct{})}
	started := make(chan error)
	go func() {
		// The signal is sent when the thread that started the program exits, not the
		// process. The thread is therefore kept.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // ProcessState has the outcome
			close(p.done)
		}
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

// PID returns the process ID.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Done returns a channel that is closed when the process has ended and all its
// output has been read.
func (p *Process) Done() <-chan struct{} { return p.done }

// Signal sends sig; a process that has ended is no error.
func (p *Process) Signal(sig os.Signal) {
	_ = p.cmd.Process.Signal(sig)
}

// Stop sends SIGSTOP, and waits until all threads stand still: some may run on for
// milliseconds, and answer a peer. A thread that the kernel does not interrupt will stop
// before it runs again. It may wait for others of the process, as those of a FUSE file
// system do that drop an entry of a directory in use.
func (p *Process) Stop() {
	p.Signal(syscall.SIGSTOP)
	for !p.isStopped() {
		select {
		case <-p.done:
			return
		case <-time.After(time.Millisecond):
		}
	}
}

// isStopped reports whether no thread runs, and all are stopped that can be, or the process
// has ended.
func (p *Process) isStopped() bool {
	stats, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", p.PID()))
	for _, name := range stats {
		stat, err := os.ReadFile(name)
		if err != nil {
			continue // the thread has ended
		}
		// The program's name, in parentheses, may contain anything.
		_, state, ok := strings.Cut(string(stat[strings.LastIndexByte(string(stat), ')')+1:]), " ")
		if ok && state[0] != 'T' && state[0] != 'D' {
			return false
		}
	}
	return true
}

// Kill ends the process and waits for its end.
func (p *Process) Kill() {
	p.Signal(syscall.SIGKILL)
	<-p.done
}

// ExitCode waits for the end and returns the exit status, -1 after a signal.
func (p *Process) ExitCode() int {
	<-p.done
	return p.cmd.ProcessState.ExitCode()
}

// BuildPrograms makes dir, if it does not exist, and builds all commands and guestwork
// in it, without symbols for debuggers: the linker is then twice as fast.
func BuildPrograms(dir string) error {
	const module = "github.com/nfsrdma/nfsrdma/"
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	build := exec.Command("go", "build", "-ldflags=-s -w", "-o", dir, module+"cmd/...", module+"interop/guestwork")
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS="+os.Getenv("GOFLAGS")+" -buildvcs=false")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", build, err, out)
	}
	return nil
}
