package probe

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/internal/mountinfo"
)

// A guard is a process that cuts this host off from the file system and restores it,
// also when the probe is killed: it has no file of the file system open, ignores the
// terminal's signals, and restores the host when it hears nothing for aliveLimit. It
// does not wait for the end of the probe, because a killed process ends only after its
// pending file operations.
type guard struct {
	manual  bool // the administrator does it
	cmd     *exec.Cmd
	in      io.WriteCloser
	replies chan string // closed when the guard has ended
	once    sync.Once
	err     error         // of close
	stop    chan struct{} // stops keepAlive
	alive   sync.WaitGroup
}

const (
	cutMessage   = "cut\n"
	aliveMessage = "alive\n"
	alivePeriod  = time.Second
	aliveLimit   = 5 * time.Second
	commandLimit = 30 * time.Second // for --cut and --restore
	restoreLimit = 2 * commandLimit // for the guard to restore the host
	retryPeriod  = 2 * time.Second
	retries      = 1800 // of restoring, about an hour
)

// startGuard starts the guard. Without commands, it stops the process that serves the
// mount, if exactly one does.
func startGuard(o *Options, m mountinfo.Mount) (*guard, error) {
	var server *os.File
	if o.Cut == "" {
		if server = openServer(m); server == nil {
			return &guard{manual: true}, nil
		}
		defer server.Close()
	}
	args := append(o.Guard[1:len(o.Guard):len(o.Guard)], o.Cut, o.Restore)
	g := &guard{cmd: exec.Command(o.Guard[0], args...), replies: make(chan string), stop: make(chan struct{})}
	g.cmd.Stderr = os.Stderr
	g.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if server != nil {
		g.cmd.ExtraFiles = []*os.File{server}
	}
	var err error
	if g.in, err = g.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := g.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := g.cmd.Start(); err != nil {
		return nil, err
	}
	go readLines(context.Background(), out, g.replies)
	if err := g.await(); err != nil {
		return nil, err
	}
	g.alive.Go(g.keepAlive)
	return g, nil
}

func (g *guard) keepAlive() {
	ticker := time.NewTicker(alivePeriod)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			_, _ = io.WriteString(g.in, aliveMessage) // an error if the guard has ended
		case <-g.stop:
			return
		}
	}
}

// await waits for the guard's reply: an empty line, or an error.
func (g *guard) await() error {
	line, ok := <-g.replies
	if !ok {
		return errors.New("the guard of the test has ended")
	}
	if line != "" {
		return errors.New(line)
	}
	return nil
}

// cut cuts the host off.
func (g *guard) cut() error {
	if _, err := io.WriteString(g.in, cutMessage); err != nil {
		return err
	}
	return g.await()
}

// close restores the host, and ends the guard. A guard that cannot restore the host
// goes on to try it.
func (g *guard) close() error {
	if g.manual {
		return nil
	}
	g.once.Do(func() {
		close(g.stop)
		g.in.Close()
		g.err = g.awaitRestored()
	})
	return g.err
}

func (g *guard) awaitRestored() error {
	limit := time.After(restoreLimit)
	why := "the command has not ended"
	for {
		select {
		case line, ok := <-g.replies:
			if !ok {
				g.alive.Wait()
				return g.cmd.Wait()
			}
			if why = line; line == "" { // of a cut
				continue
			}
		case <-limit:
		}
		return fmt.Errorf("this host is still cut off, and a process goes on to restore it: %s", why)
	}
}

// openServer returns the only process that serves a FUSE mount, and no other mount, as
// a descriptor, or nil.
func openServer(m mountinfo.Mount) *os.File {
	pid := findServer(m)
	if pid == 0 {
		return nil
	}
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return nil
	}
	if findServer(m) != pid { // another process may have got the number
		unix.Close(fd)
		return nil
	}
	return os.NewFile(uintptr(fd), "pidfd")
}

// findServer returns the only process that serves a FUSE mount, and no other mount, or
// 0. It is 0 if the kernel does not tell whose connection a descriptor is: the process
// could serve any mount.
func findServer(m mountinfo.Mount) (pid int) {
	if m.Kind != "fuse" && !strings.HasPrefix(m.Kind, "fuse.") {
		return 0
	}
	_, connection, _ := strings.Cut(m.Device, ":")
	servers, others := map[int]bool{}, map[int]bool{}
	links, _ := filepath.Glob("/proc/[0-9]*/fd/*")
	for _, link := range links {
		if target, err := os.Readlink(link); err != nil || target != "/dev/fuse" {
			continue
		}
		parts := strings.Split(link, "/")
		p, _ := strconv.Atoi(parts[2])
		if connectionOf("/proc/"+parts[2]+"/fdinfo/"+parts[4]) == connection {
			servers[p] = true
		} else {
			others[p] = true
		}
	}
	for pid = range servers {
	}
	if len(servers) != 1 || others[pid] {
		return 0
	}
	return pid
}

// connectionOf returns the FUSE connection of a descriptor, or "" if the kernel does
// not tell.
func connectionOf(fdinfo string) string {
	b, _ := os.ReadFile(fdinfo)
	for line := range strings.Lines(string(b)) {
		if value, ok := strings.CutPrefix(line, "fuse_connection:"); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// RunGuard is the guard's process. Its arguments are two commands, or two empty ones if
// descriptor 3 is the process to stop.
func RunGuard(args []string) error {
	signal.Ignore(unix.SIGINT, unix.SIGTERM, unix.SIGHUP, unix.SIGPIPE)
	if len(args) != 2 {
		return errors.New("this command is a part of nfsrdmad probe --late")
	}
	cut := func(ctx context.Context) error { return runCommand(ctx, args[0]) }
	restore := func() error { return runCommand(context.Background(), args[1]) }
	if args[0] == "" {
		const server = 3
		unix.CloseOnExec(server)
		cut = func(ctx context.Context) error { return stopServer(ctx, server) }
		restore = func() error {
			err := unix.PidfdSendSignal(server, unix.SIGCONT, nil, 0)
			if errors.Is(err, unix.ESRCH) { // it has ended
				return nil
			}
			return err
		}
	}
	fmt.Println()
	messages := make(chan string, 1)
	ctx, end := context.WithCancel(context.Background())
	go func() {
		readLines(ctx, os.Stdin, messages)
		end()
	}()
	for first := range messages {
		if first+"\n" == cutMessage {
			fmt.Println(describe(cut(ctx)))
			awaitSilence(ctx, messages)
			return restoreHost(restore)
		}
	}
	return nil
}

// stopServer stops a process, and waits until it has stopped: until then it would still
// execute what is to wait.
func stopServer(ctx context.Context, server int) error {
	if err := unix.PidfdSendSignal(server, unix.SIGSTOP, nil, 0); err != nil {
		return err
	}
	info, err := os.ReadFile(fmt.Sprintf("/proc/self/fdinfo/%d", server))
	if err != nil {
		return err
	}
	_, rest, _ := strings.Cut(string(info), "\nPid:")
	pid, _, _ := strings.Cut(strings.TrimSpace(rest), "\n")
	ctx, cancel := context.WithTimeoutCause(ctx, commandLimit, errors.New("the process that serves the mount has not stopped"))
	defer cancel()
	for isActive(pid) {
		if err := sleep(ctx, pollPeriod); err != nil {
			return err
		}
	}
	return nil
}

// isActive reports whether a thread of a process runs, or would do so for a signal.
// Others that have yet to stop wait for a device, and stop before they read a request.
func isActive(pid string) bool {
	threads, _ := filepath.Glob("/proc/" + pid + "/task/*/status")
	return slices.ContainsFunc(threads, func(status string) bool {
		b, _ := os.ReadFile(status)
		_, state, _ := strings.Cut(string(b), "\nState:")
		state = strings.TrimSpace(state)
		return strings.HasPrefix(state, "R") || strings.HasPrefix(state, "S")
	})
}

// awaitSilence waits until the probe has ended, or hangs.
func awaitSilence(ctx context.Context, messages <-chan string) {
	for {
		select {
		case _, isAlive := <-messages:
			if !isAlive {
				return
			}
		case <-ctx.Done():
			return
		case <-time.After(aliveLimit):
			return
		}
	}
}

// restoreHost restores the host, again if it fails.
func restoreHost(restore func() error) (err error) {
	for range retries {
		if err = restore(); err == nil {
			return nil
		}
		fmt.Println(describe(err))
		time.Sleep(retryPeriod)
	}
	return err
}

// readLines sends lines without their ends, and closes the channel after the last one.
func readLines(ctx context.Context, from io.Reader, lines chan<- string) {
	defer close(lines)
	for s := bufio.NewScanner(from); s.Scan(); {
		select {
		case lines <- s.Text():
		case <-ctx.Done():
			return
		}
	}
}

func describe(err error) string {
	if err == nil {
		return ""
	}
	return strings.ReplaceAll(err.Error(), "\n", " ")
}

// runCommand runs a command without a shell, and kills it after commandLimit.
func runCommand(ctx context.Context, command string) error {
	ctx, cancel := context.WithTimeout(ctx, commandLimit)
	defer cancel()
	words := strings.Fields(command)
	if len(words) == 0 {
		return errors.New("the command is empty")
	}
	cmd := exec.CommandContext(ctx, words[0], words[1:]...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return unix.Kill(-cmd.Process.Pid, unix.SIGKILL) }
	cmd.WaitDelay = time.Second
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w: %s", command, err, strings.TrimSpace(string(out)))
	}
	return nil
}
