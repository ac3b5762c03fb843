package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"log/syslog"
	"os"
	"os/exec"

	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/internal/cli"
)

// A daemon is the process that remains after the called process has exited. Until it is
// detached, the daemon keeps the terminal, and reports there why it cannot mount.
//
//	called ──▶ daemon: connects, mounts
//	  │  pipe ◀── one byte: mounted (or bg: not yet)
//	  ▼               ── nothing: the called process exits with the daemon's status
//	 exit 0
//
// A nil daemon is a process in the foreground.
type daemon struct{ pipe *os.File }

// daemonEnv is set in the environment of a daemon. Its pipe is pipeFD.
const (
	daemonEnv = "MOUNTRDMA_DAEMON"
	pipeFD    = 3
)

// startDaemon starts this program with the same arguments in the background. It returns
// when that process no longer needs the terminal.
func startDaemon(ctx context.Context) error {
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	defer r.Close()
	cmd := exec.CommandContext(ctx, "/proc/self/exe", os.Args[1:]...)
	cmd.Args[0] = os.Args[0]
	cmd.Env = append(os.Environ(), daemonEnv+"=1")
	cmd.Stdout, cmd.Stderr, cmd.ExtraFiles = os.Stdout, os.Stderr, []*os.File{w}
	cmd.SysProcAttr = &unix.SysProcAttr{Setsid: true}
	cmd.Cancel = func() error { return cmd.Process.Signal(unix.SIGTERM) } // lets it clean up
	err = cmd.Start()
	w.Close()
	if err != nil {
		return fmt.Errorf("cannot start the process that serves the mount: %w", err)
	}
	if n, _ := r.Read(make([]byte, 1)); n == 1 {
		return nil
	}
	err = cmd.Wait()
	exit, exited := errors.AsType[*exec.ExitError](err)
	switch {
	case err == nil:
		return nil // exited without a mount, as requested
	case exited && exit.Exited():
		return cli.ErrReported
	default:
		return fmt.Errorf("the process that serves the mount exited before it had mounted: %w", err)
	}
}

// inheritDaemon returns the daemon that this process is, or nil in the foreground.
func inheritDaemon() *daemon {
	if os.Getenv(daemonEnv) == "" {
		return nil
	}
	os.Unsetenv(daemonEnv)
	unix.CloseOnExec(pipeFD)
	return &daemon{os.NewFile(pipeFD, "pipe")}
}

// detach leaves the terminal and lets the called process exit.
func (d *daemon) detach() {
	if d == nil || d.isDetached() {
		return
	}
	if null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0); err == nil {
		for fd := range 3 {
			_ = unix.Dup3(int(null.Fd()), fd, 0)
		}
		null.Close()
	}
	_ = os.Chdir("/") // do not keep a file system busy
	_, _ = d.pipe.Write([]byte{0})
	d.pipe.Close()
	d.pipe = nil
}

// isDetached reports whether the process has left its terminal.
func (d *daemon) isDetached() bool { return d.pipe == nil }

// newLog returns the logger of a process that serves a mount: standard error in the
// foreground, otherwise syslog if the host has one.
func (m *mountCommand) newLog() *slog.Logger {
	level := slog.LevelInfo
	if m.verbose {
		level = slog.LevelDebug
	}
	if m.daemon != nil {
		log, err := syslog.New(syslog.LOG_DAEMON|syslog.LOG_NOTICE, m.name)
		if err != nil {
			return slog.New(slog.DiscardHandler)
		}
		return slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: level}))
	}
	return slog.New(cli.NewLogHandler(m.stderr, level))
}
