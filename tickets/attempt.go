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

	"github.com/nfsrdma/nfsrdma/gss"
	"github.com/nfsrdma/nfsrdma/gss/krb5"
	"github.com/nfsrdma/nfsrdma/tickets/wire"
)

// An attempt is a running helper. It implements gss.Initiator.
type attempt struct {
	helper *Helper
	user   User
	leave  func()

	cmd       *exec.Cmd // nil: not started
	in, out   *os.File  // our ends of the pipes
	complaint complaint
	spent     time.Duration // by the helper
	closed    sync.Once
}

// start starts the helper as the user. HOME and the working directory are the
// root, because a home directory may be on the mount that waits for this context.
func (a *attempt) start() error {
	cmd := a.helper.command()
	cmd.Dir, cmd.Env, cmd.Stderr, cmd.WaitDelay = "/", append(a.helper.cfg.Env[:len(a.helper.cfg.Env):len(a.helper.cfg.Env)], "HOME=/"), &a.complaint, waitDelay
	if self := os.Geteuid(); self == 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: a.user.UID, Gid: a.user.GID, Groups: a.user.Groups}}
	} else if uint32(self) != a.user.UID {
		return &Error{User: a.user.name(), Reason: wire.NoTicket, Words: "only a mount by root can use the tickets of other users"}
	}
	theirIn, in, err := os.Pipe()
	if err != nil {
		return a.user.unstarted(err)
	}
	defer theirIn.Close()
	a.in = in
	out, theirOut, err := os.Pipe()
	if err != nil {
		return a.user.unstarted(err)
	}
	defer theirOut.Close()
	a.out = out
	cmd.Stdin, cmd.Stdout = theirIn, theirOut
	if err := cmd.Start(); err != nil {
		if of, ok := errors.AsType[*fs.PathError](err); ok {
			of.Path = a.helper.cfg.Program // not the descriptor
		}
		if errors.Is(err, fs.ErrNotExist) {
			return a.user.fail("%s is missing: install it beside mountrdma", a.helper.cfg.Program)
		}
		return a.user.unstarted(err)
	}
	a.cmd = cmd
	return nil
}

// Close ends the helper, and with it the user's turn.
func (a *attempt) Close() {
	a.closed.Do(func() {
		for _, f := range []*os.File{a.in, a.out} {
			if f != nil {
				f.Close()
			}
		}
		if a.cmd != nil {
			_ = a.cmd.Process.Kill()
			_ = a.cmd.Wait() // its messages have told the outcome
		}
		a.leave()
	})
}

// Step passes the server's answer to the helper, and returns the next token, or
// the context (gss.Initiator).
func (a *attempt) Step(ctx context.Context, answer []byte) (token []byte, c gss.Context, err error) {
	if answer != nil {
		if err := a.send(ctx, &wire.Token{Token: answer}); err != nil {
			return nil, nil, err
		}
	}
	m, err := a.receive(ctx)
	if err != nil {
		return nil, nil, err
	}
	switch m := m.(type) {
	case *wire.Token:
		if len(m.Token) > 0 {
			return m.Token, nil, nil
		}
	case *wire.Failure:
		return nil, nil, &Error{User: a.user.name(), Reason: m.Reason, Words: m.Words, Ended: time.Unix(int64(m.Ended), 0)}
	case *wire.Keys:
		if answer == nil {
			break // the server has not been heard
		}
		c, err := krb5.NewContext(krb5.Establishment{
			Key: krb5.Key{Enctype: krb5.Enctype(m.Enctype), Value: m.Key}, AcceptorSubkey: m.Subkey,
			Sequence: m.Sequence, Expires: time.Unix(int64(m.Expires), 0),
		})
		clear(m.Key)
		if err != nil {
			return nil, nil, a.user.fail("the keys of the context cannot be used: %v", err)
		}
		return nil, c, nil
	}
	return nil, nil, a.user.fail("nfsrdma-gss does not keep to its protocol: is it of the same release as mountrdma?")
}

// send writes a message to the helper.
func (a *attempt) send(ctx context.Context, m wire.Message) error {
	return a.within(ctx, func() error { return wire.Write(a.in, m) })
}

// receive reads a message of the helper.
func (a *attempt) receive(ctx context.Context) (m wire.Message, err error) {
	err = a.within(ctx, func() (err error) {
		m, err = wire.Read(a.out)
		return err
	})
	return m, err
}

// within runs one exchange with the helper, until ctx ends or the helper has used
// up its time.
func (a *attempt) within(ctx context.Context, f func() error) error {
	started := time.Now()
	until := started.Add(a.helper.limit - a.spent)
	a.setDeadline(until)
	passed := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		a.setDeadline(started)
		close(passed)
	})
	err := f()
	if !stop() {
		<-passed // else it would end the next exchange
	}
	a.spent += time.Since(started)
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return &Error{User: a.user.name(), Reason: wire.NoKDC, Words: fmt.Sprintf("nfsrdma-gss did not end within %v: does the KDC answer, and is the credential cache on a file system that does?", a.helper.limit)}
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.EPIPE):
		return a.user.fail("nfsrdma-gss has ended: %s", a.ended())
	}
	return a.user.fail("nfsrdma-gss does not keep to its protocol (%v): is it of the same release as mountrdma?", err)
}

func (a *attempt) setDeadline(at time.Time) {
	_ = a.in.SetDeadline(at) // pipes have deadlines
	_ = a.out.SetDeadline(at)
}

// ended returns the words of a helper that has ended, and its exit status.
func (a *attempt) ended() string {
	_ = a.cmd.Process.Kill() // it has closed its output
	_ = a.cmd.Wait()
	if text := a.complaint.String(); text != "" {
		return fmt.Sprintf("%v: %s", a.cmd.ProcessState, text)
	}
	return a.cmd.ProcessState.String()
}

// A complaint is the start of a helper's standard error.
type complaint struct {
	mu   sync.Mutex
	text []byte
}

// Write takes all of b, and keeps some.
func (c *complaint) Write(b []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.text = append(c.text, b[:min(len(b), maxComplaint-len(c.text))]...)
	return len(b), nil
}

// String returns the text with all but printable characters escaped.
func (c *complaint) String() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	quoted := fmt.Sprintf("%q", c.text)
	return quoted[1 : len(quoted)-1]
}
