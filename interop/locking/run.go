// Package locking runs processes that lock bytes in one file through two directories. The
// replies must be those of a local file system, even if the directories are two clients'
// mounts.
//
// Over NFS, Linux implements flock as a lock on all bytes. On a local file system flock
// and fcntl locks are independent, so no paragraph has both. The processes open the file
// in the first paragraph.
package locking

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
)

// The steps, by process: a and c are in the first directory, b in the second. A process
// without a reply waits: the step "=" reads the reply. "kill" kills the process, and the
// next step starts another process.
const steps = `
a open 1
b open 1
a posix 1 write 0 10
b posix 1 write 9 1
b posix 1 read 0 0
b posix-test 1 read 5 0
b posix 1 write 10 5
a posix-test 1 write 0 0
a posix-test 1 write 12 1
b posix-test 1 write 0 0
a posix 1 none 0 0
b posix 1 write 0 0
a posix-test 1 read 1000000 1
b posix 1 none 0 0

a posix 1 read 0 100
b posix 1 read 50 100
a posix 1 write 0 50
a posix 1 write 0 51
b posix-test 1 write 0 0
a posix 1 write 10 10
b posix-test 1 read 0 0
a posix 1 read 10 10
b posix-test 1 read 0 0
b posix-test 1 write 15 1
b posix 1 none 0 0
a posix 1 write 0 0
b posix-test 1 read 70 1
a posix 1 none 20 10
b posix-test 1 write 20 10
b posix-test 1 write 19 1
b posix-test 1 write 30 1
b posix 1 write 20 10
a posix 1 write 20 10
a posix-test 1 write 20 10
b posix 1 none 25 1
a posix 1 write 25 1
b posix-test 1 write 25 1
a posix-test 1 write 20 1
a posix-test 1 write 26 1
a posix 1 none 0 0
b posix 1 none 0 0

a posix 1 write 9223372036854775807 1
b posix-test 1 write 0 0
b posix 1 write 9223372036854775806 1
b posix 1 write 9223372036854775807 0
a posix 1 none 9223372036854775807 1
b posix 1 none 0 0
a posix 1 write 9223372036854775806 1
b posix-test 1 write 0 0
a posix 1 write 9223372036854775807 1
b posix-test 1 write 0 0
a posix 1 write 4611686018427387904 0
b posix-test 1 write 4611686018427387903 0
b posix-test 1 write 4611686018427387903 1
a posix 1 write 0 9223372036854775807
b posix-test 1 write 9223372036854775807 0
a posix 1 none 0 9223372036854775807
b posix-test 1 write 0 0
b posix-test 1 write 0 9223372036854775807
a posix 1 none 0 0
b posix-test 1 write 0 0

a lockf 1 100 10
a lockf 1 100 -10
b posix-test 1 write 0 0
b lockf 1 109 1
b lockf 1 110 1
a posix 1 none 0 0
b posix 1 none 0 0

a ofd 1 write 0 10
a open 2
a ofd 2 write 5 1
a ofd 2 write 10 10
b ofd 1 write 19 1
b ofd-test 1 write 15 0
b posix-test 1 write 0 5
a close 2
b ofd 1 write 10 10
b ofd 1 none 0 0
a ofd 1 read 0 10
a open 2
a ofd 2 read 5 10
b ofd 1 write 12 1
b ofd 1 read 0 0
a ofd 2 write 5 10
b ofd 1 none 0 0
a ofd 1 none 0 0
a ofd 2 write 5 10
b ofd-test 1 read 0 0
a close 2
b ofd-test 1 read 0 0

a flock 1 write
b flock 1 write
b flock 1 read
a flock 1 none
b flock 1 read
a flock 1 read
a flock 1 none
b flock 1 write
a flock 1 read
b flock 1 none
a flock 1 read
a flock 1 none

a posix 1 write 0 10
a open 2
b posix 1 write 0 1
a close 2
b posix 1 write 0 1
b posix 1 none 0 0

c open 1
c posix 1 write 0 10
c posix 1 read 100 0
b posix 1 write 5 1
c kill
b posix 1 write 0 0
b posix 1 none 0 0

c open 1
c ofd 1 write 0 10
b ofd 1 write 5 1
c kill
b ofd 1 write 0 0
b ofd 1 none 0 0

c open 1
c flock 1 write
b flock 1 write
c kill
b flock 1 write
b flock 1 none

a posix 1 write 0 10
b posix-wait 1 write 5 1 &
a posix 1 none 0 0
b =
a posix 1 write 0 0
b posix 1 none 0 0
b ofd 1 write 0 10
a ofd-wait 1 read 5 0 &
b ofd 1 none 0 0
a =
a ofd 1 none 0 0

a many 1000 write 0 2
b posix-test 1 write 0 1
b posix-test 1 write 1999 0
b posix-test 1 read 1000 500
b posix 1 write 2000 0
b posix 1 read 0 0
a few
b posix 1 write 0 0
b posix 1 none 0 0
a many 1000 read 0 0
b posix 1 write 5 5
b posix 1 read 5 5
a few
b posix 1 write 0 0
b posix 1 none 0 0

a many 1000 read 0 0
b many 1000 read 10 10
a posix 1 write 10 1
a few
a posix 1 write 15 1
a posix 1 write 0 10
b few
a posix 1 write 15 1
a posix 1 none 0 0

a open-read 2
a posix 2 write 0 1
a ofd 2 write 0 1
a posix 2 read 0 1
b posix 1 write 0 1
a close 2
a open-write 2
a posix 2 read 0 1
a ofd 2 read 0 1
a posix 2 write 0 1
b posix 1 read 0 1
a close 2

a flock 1 write
b flock-wait 1 read &
a flock 1 read
b =
b flock-wait 1 write &
a flock 1 none
b =
a flock 1 read
b flock 1 none

a posix 1 read 0 10
b posix 1 read 0 10
a posix-wait 1 write 0 10 &
b posix 1 none 0 0
a =
b posix-test 1 read 0 0
a posix 1 none 0 0

a posix 1 read 0 10
c open 1
c posix 1 read 20 10
b posix-wait 1 write 5 20 &
a posix 1 none 0 0
a posix-test 1 write 12 1
c posix 1 none 0 0
b =
a posix-test 1 read 0 0
b posix 1 none 0 0
c kill

b posix 1 write 0 10
c open 1
c posix-wait 1 write 5 1 &
c kill
b posix 1 none 0 0
a posix 1 write 0 0
a posix 1 none 0 0

a count 1
b count 1
a count 1
a count 1
b count 1
b count 1
a count 1
b count 1
a close 1
b close 1
`

// Run performs the steps with this program's processes in two directories, which are one
// directory or two mounts on it, and prints the replies.
func Run(one, two string, out io.Writer) error {
	dirs := map[string]string{"a": one, "b": two, "c": one}
	every := func(string) bool { return true }
	err := Contend(func(who string) (Child, error) { return Start("/proc/self/exe", dirs[who]) }, every, out)
	return errors.Join(err, removeFile(one))
}

// A Child executes Process. Its input is written, and its output read.
type Child interface {
	io.ReadWriter

	// Kill kills the process.
	Kill() error

	// Wait closes the input, and waits until the process exits.
	Wait() error
}

// Contend performs the steps with processes that start returns, by their names, and
// prints the replies. It performs only the wanted paragraphs.
func Contend(start func(who string) (Child, error), wanted func(paragraph string) bool, out io.Writer) error {
	r := stepRunner{start: start, children: make(map[string]*runningChild)}
	defer r.stopAll()
	number := 0
	for paragraph := range strings.SplitSeq(strings.TrimSpace(steps), "\n\n") {
		for line := range strings.SplitSeq(paragraph, "\n") {
			number++
			if !wanted(paragraph) {
				continue
			}
			who, command, _ := strings.Cut(line, " ")
			answer, err := r.runStep(who, command)
			if err != nil {
				return fmt.Errorf("step %d, %s: %w", number, line, err)
			}
			if _, err := fmt.Fprintf(out, "%d %s: %s\n", number, line, answer); err != nil {
				return err
			}
		}
	}
	return r.stopAll()
}

type stepRunner struct {
	start    func(who string) (Child, error)
	children map[string]*runningChild
}

type runningChild struct {
	Child
	answers *bufio.Reader
}

func (r *stepRunner) runStep(who, command string) (answer string, err error) {
	c := r.children[who]
	if c == nil {
		started, err := r.start(who)
		if err != nil {
			return "", err
		}
		c = &runningChild{started, bufio.NewReader(started)}
		r.children[who] = c
	}
	switch waits := strings.HasSuffix(command, " &"); {
	case command == "kill":
		delete(r.children, who)
		return "ok", c.Kill()
	case command != "=":
		if _, err := fmt.Fprintln(c, strings.TrimSuffix(command, " &")); err != nil || waits {
			return "waits", err
		}
	}
	answer, err = c.answers.ReadString('\n')
	return strings.TrimSuffix(answer, "\n"), err
}

// stopAll ends the processes.
func (r *stepRunner) stopAll() (err error) {
	for who, c := range r.children {
		delete(r.children, who)
		err = errors.Join(err, c.Wait())
	}
	return err
}

// A child is a process on this host.
type child struct {
	cmd *exec.Cmd
	io.WriteCloser
	io.Reader
}

// Start starts a process on this host in a directory. The program is guestwork.
func Start(program, dir string) (Child, error) {
	cmd := exec.Command(program, "locker", dir)
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	return &child{cmd, in, out}, cmd.Start()
}

// Kill implements Child.
func (c *child) Kill() error {
	if err := c.cmd.Process.Kill(); err != nil {
		return err
	}
	_ = c.cmd.Wait() // the process was killed
	return nil
}

// Wait implements Child.
func (c *child) Wait() error { return errors.Join(c.Close(), c.cmd.Wait()) }
