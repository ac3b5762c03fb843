package tickets

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"github.com/nfsrdma/nfsrdma/oncrpc/gss"
	"github.com/nfsrdma/nfsrdma/oncrpc/gss/krb5"
	"github.com/nfsrdma/nfsrdma/oncrpc/gss/tickets/wire"
)

// A helperAttempt is a running helper. It implements gss.Initiator.
type helperAttempt struct {
	helper  *Helper
	user    User
	release func()

	cmd        *exec.Cmd // nil: not started
	in, out    *os.File  // this process's ends of the pipes
	stderr     stderrBuffer
	helperTime time.Duration // time spent by the helper
	closed     sync.Once
}

// startHelper starts the helper as the user. HOME and the working directory are the root
// directory, because a home directory may be on the mount that waits for this context.
func (a *helperAttempt) startHelper() error {
	cmd := a.helper.newCommand()
	cmd.Dir, cmd.Env, cmd.Stderr, cmd.WaitDelay = "/", append(a.helper.cfg.Env[:len(a.helper.cfg.Env):len(a.helper.cfg.Env)], "HOME=/"), &a.stderr, waitDelay
	if self := os.Geteuid(); self == 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: a.user.UID, Gid: a.user.GID, Groups: a.user.Groups}}
	} else if uint32(self) != a.user.UID {
		return &Error{User: a.user.displayName(), Reason: wire.NoTicket, Text: "only a mount by root can use other users' tickets"}
	}
	theirIn, in, err := os.Pipe()
	if err != nil {
		return a.user.startError(err)
	}
	defer theirIn.Close()
	a.in = in
	out, theirOut, err := os.Pipe()
	if err != nil {
		return a.user.startError(err)
	}
	defer theirOut.Close()
	a.out = out
	cmd.Stdin, cmd.Stdout = theirIn, theirOut
	if err := cmd.Start(); err != nil {
		if of, ok := errors.AsType[*fs.PathError](err); ok {
			of.Path = a.helper.cfg.Program // instead of the descriptor
		}
		if errors.Is(err, fs.ErrNotExist) {
			return a.user.failure("%s is missing: install it next to mountrdma", a.helper.cfg.Program)
		}
		return a.user.startError(err)
	}
	a.cmd = cmd
	return nil
}

// Close terminates the helper, and ends the user's turn.
func (a *helperAttempt) Close() {
	a.closed.Do(func() {
		for _, f := range []*os.File{a.in, a.out} {
			if f != nil {
				f.Close()
			}
		}
		if a.cmd != nil {
			_ = a.cmd.Process.Kill()
			_ = a.cmd.Wait() // its messages contained the result
		}
		a.release()
	})
}

// Step passes the server's reply token to the helper, and returns the next token, or the
// context (gss.Initiator).
func (a *helperAttempt) Step(ctx context.Context, answer []byte) (token []byte, c gss.Context, err error) {
	if answer != nil {
		if err := a.sendMessage(ctx, &wire.Token{Token: answer}); err != nil {
			return nil, nil, err
		}
	}
	m, err := a.receiveMessage(ctx)
	if err != nil {
		return nil, nil, err
	}
	switch m := m.(type) {
	case *wire.Token:
		if len(m.Token) > 0 {
			return m.Token, nil, nil
		}
	case *wire.Failure:
		return nil, nil, &Error{User: a.user.displayName(), Reason: m.Reason, Text: m.Text, Ended: time.Unix(int64(m.Ended), 0)}
	case *wire.Keys:
		if answer == nil {
			break // the server has not replied yet
		}
		c, err := krb5.NewContext(krb5.Establishment{
			Key: krb5.Key{Enctype: krb5.Enctype(m.Enctype), Value: m.Key}, AcceptorSubkey: m.Subkey,
			Sequence: m.Sequence, Expires: time.Unix(int64(m.Expires), 0),
		})
		clear(m.Key)
		if err != nil {
			return nil, nil, a.user.failure("the context's keys cannot be used: %v", err)
		}
		return nil, c, nil
	}
	return nil, nil, a.user.failure("nfsrdma-gss violates its protocol: is it from the same release as mountrdma?")
}

// sendMessage writes a message to the helper.
func (a *helperAttempt) sendMessage(ctx context.Context, m wire.Message) error {
	return a.runExchange(ctx, func() error { return wire.Write(a.in, m) })
}

// receiveMessage reads a message from the helper.
func (a *helperAttempt) receiveMessage(ctx context.Context) (m wire.Message, err error) {
	err = a.runExchange(ctx, func() (err error) {
		m, err = wire.Read(a.out)
		return err
	})
	return m, err
}

// runExchange runs one exchange with the helper, until ctx ends or the helper has used up
// its time.
func (a *helperAttempt) runExchange(ctx context.Context, f func() error) error {
	started := time.Now()
	until := started.Add(a.helper.limit - a.helperTime)
	a.setDeadline(until)
	passed := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		a.setDeadline(started)
		close(passed)
	})
	err := f()
	if !stop() {
		<-passed // otherwise it could interrupt the next exchange
	}
	a.helperTime += time.Since(started)
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return &Error{User: a.user.displayName(), Reason: wire.NoKDC, Text: fmt.Sprintf("nfsrdma-gss did not finish within %v: do the KDC and the file system with the credential cache respond?", a.helper.limit)}
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.EPIPE):
		return a.user.failure("nfsrdma-gss has exited: %s", a.exitText())
	}
	return a.user.failure("nfsrdma-gss violates its protocol (%v): is it from the same release as mountrdma?", err)
}

func (a *helperAttempt) setDeadline(at time.Time) {
	_ = a.in.SetDeadline(at) // pipes have deadlines
	_ = a.out.SetDeadline(at)
}

// exitText returns a terminated helper's exit status and standard error.
func (a *helperAttempt) exitText() string {
	_ = a.cmd.Process.Kill() // it has closed its output
	_ = a.cmd.Wait()
	if text := a.stderr.String(); text != "" {
		return fmt.Sprintf("%v: %s", a.cmd.ProcessState, text)
	}
	return a.cmd.ProcessState.String()
}

// A stderrBuffer keeps the start of a helper's standard error.
type stderrBuffer struct {
	mu   sync.Mutex
	text []byte
}

// Write accepts all of b, and keeps the part that fits.
func (c *stderrBuffer) Write(b []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.text = append(c.text, b[:min(len(b), maxStderr-len(c.text))]...)
	return len(b), nil
}

// String returns the text with unprintable characters escaped.
func (c *stderrBuffer) String() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	quoted := fmt.Sprintf("%q", c.text)
	return quoted[1 : len(quoted)-1]
}
