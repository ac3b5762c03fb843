package probe

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
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
	manual bool // the administrator does it
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    *bufio.Reader
	once   sync.Once
	stop   chan struct{} // stops keepAlive
	alive  sync.WaitGroup
}

const (
	cutMessage   = "cut\n"
	aliveMessage = "alive\n"
	alivePeriod  = time.Second
	aliveLimit   = 5 * time.Second
)

// startGuard starts the guard. Without commands, it stops the process that serves the
// mount, if exactly one does.
func startGuard(o *Options, m mountinfo.Mount) (*guard, error) {
	pid := 0
	if o.Cut == "" {
		if pid = findServer(m); pid == 0 {
			return &guard{manual: true}, nil
		}
	}
	args := append(o.Guard[1:len(o.Guard):len(o.Guard)], strconv.Itoa(pid), o.Cut, o.Restore)
	g := &guard{cmd: exec.Command(o.Guard[0], args...)}
	g.cmd.Stderr = os.Stderr
	g.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	var err error
	if g.in, err = g.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := g.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	g.out = bufio.NewReader(out)
	if err := g.cmd.Start(); err != nil {
		return nil, err
	}
	if err := g.await(); err != nil {
		return nil, err
	}
	g.stop = make(chan struct{})
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
	line, err := g.out.ReadString('\n')
	if err != nil {
		return fmt.Errorf("the guard of the test has ended: %w", err)
	}
	if line = strings.TrimSpace(line); line != "" {
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

// close restores the host, and ends the guard.
func (g *guard) close() {
	if g.manual {
		return
	}
	g.once.Do(func() {
		close(g.stop)
		g.alive.Wait()
		g.in.Close()
		_, _ = io.Copy(io.Discard, g.out)
		_ = g.cmd.Wait()
	})
}

// findServer returns the only process that serves a FUSE mount, or 0.
func findServer(m mountinfo.Mount) (pid int) {
	if m.Kind != "fuse" && !strings.HasPrefix(m.Kind, "fuse.") {
		return 0
	}
	_, connection, _ := strings.Cut(m.Device, ":")
	found := map[int]bool{}
	links, _ := filepath.Glob("/proc/[0-9]*/fd/*")
	for _, link := range links {
		if target, err := os.Readlink(link); err != nil || target != "/dev/fuse" {
			continue
		}
		parts := strings.Split(link, "/")
		other := connectionOf("/proc/" + parts[2] + "/fdinfo/" + parts[4])
		if p, err := strconv.Atoi(parts[2]); err == nil && (other == "" || other == connection) {
			found[p] = true
		}
	}
	if len(found) == 1 {
		for pid = range found {
		}
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

// RunGuard is the guard's process. Its arguments are a process, or 0 and two commands.
func RunGuard(args []string) error {
	signal.Ignore(unix.SIGINT, unix.SIGTERM, unix.SIGHUP, unix.SIGPIPE)
	if len(args) != 3 {
		return errors.New("this command is a part of nfsrdmad probe --late")
	}
	cut, restore := func() error { return runCommand(args[1]) }, func() error { return runCommand(args[2]) }
	if pid, _ := strconv.Atoi(args[0]); pid > 0 {
		fd, err := unix.PidfdOpen(pid, 0)
		if err != nil {
			return fmt.Errorf("process %d: %w", pid, err)
		}
		cut = func() error { return unix.PidfdSendSignal(fd, unix.SIGSTOP, nil, 0) }
		restore = func() error { return unix.PidfdSendSignal(fd, unix.SIGCONT, nil, 0) }
	}
	fmt.Println()
	messages := make(chan string)
	go readMessages(messages)
	if !awaitCut(messages) {
		return nil
	}
	err := cut()
	fmt.Println(describe(err))
	for isAlive := true; isAlive; {
		select {
		case _, isAlive = <-messages:
		case <-time.After(aliveLimit):
			isAlive = false
		}
	}
	for err = restore(); err != nil; err = restore() {
		fmt.Fprintln(os.Stderr, "cannot restore this host, and try again:", err)
		time.Sleep(2 * time.Second)
	}
	return nil
}

// readMessages sends the lines of standard input, and closes the channel at its end.
func readMessages(messages chan<- string) {
	defer close(messages)
	for input := bufio.NewReader(os.Stdin); ; {
		line, err := input.ReadString('\n')
		if err != nil {
			return
		}
		messages <- line
	}
}

// awaitCut reports false if the probe ends without a cut.
func awaitCut(messages <-chan string) bool {
	for m := range messages {
		if m == cutMessage {
			return true
		}
	}
	return false
}

func describe(err error) string {
	if err == nil {
		return ""
	}
	return strings.ReplaceAll(err.Error(), "\n", " ")
}

// runCommand runs a command without a shell.
func runCommand(command string) error {
	words := strings.Fields(command)
	if len(words) == 0 {
		return nil
	}
	out, err := exec.Command(words[0], words[1:]...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w: %s", command, err, strings.TrimSpace(string(out)))
	}
	return nil
}
