package kerberos

import (
	_ "embed"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"

	"github.com/nfsrdma/nfsrdma/interop"
)

//go:embed peer.py
var program string

// A gssPeer is a process that makes and takes tokens by MIT's library. It has one
// context. Its methods' errors contain MIT's messages.
type gssPeer struct {
	*interop.Process
	in  io.WriteCloser
	out io.ReadCloser
}

// startPeer starts a peer with the KDC's realm and default credential cache. Its
// own errors go to log.
func startPeer(k *KDC, log io.Writer) (*gssPeer, error) {
	in, ours, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer in.Close()
	theirs, out, err := os.Pipe()
	if err != nil {
		ours.Close()
		return nil, err
	}
	defer out.Close()
	cmd := exec.Command("/usr/bin/python3", "-c", program)
	cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = k.environ(), in, out, log
	p, err := interop.StartProcess(cmd)
	if err != nil {
		ours.Close()
		theirs.Close()
		return nil, err
	}
	return &gssPeer{p, ours, theirs}, nil
}

// Close ends the process.
func (p *gssPeer) Close() {
	p.in.Close()
	p.Kill()
	p.out.Close()
}

func (p *gssPeer) sendOrder(letter byte, arg []byte) ([]byte, error) {
	if _, err := p.in.Write(append(binary.BigEndian.AppendUint32([]byte{letter}, uint32(len(arg))), arg...)); err != nil {
		return nil, err
	}
	var head [5]byte
	if _, err := io.ReadFull(p.out, head[:]); err != nil {
		return nil, fmt.Errorf("the peer's answer: %w", err)
	}
	answer := make([]byte, binary.BigEndian.Uint32(head[1:]))
	if _, err := io.ReadFull(p.out, answer); err != nil {
		return nil, fmt.Errorf("the peer's answer: %w", err)
	}
	if head[0] != '+' {
		return nil, errors.New(string(answer))
	}
	return answer, nil
}

// An initiation is the initiator's part in a new context.
type initiation struct {
	Service  string   `json:"service"` // nfs@server.test.example
	Flags    []string `json:"flags"`   // mutual, delegate, replay, sequence, integrity, confidentiality
	Bindings string   `json:"bindings,omitempty"`
}

// initiateContext makes a new context, and returns its first token.
func (p *gssPeer) initiateContext(i initiation) ([]byte, error) {
	arg, err := json.Marshal(i)
	if err != nil {
		return nil, err
	}
	return p.sendOrder('i', arg)
}

// Complete hands the acceptor's answer to the initiator.
func (p *gssPeer) Complete(answer []byte) error {
	_, err := p.sendOrder('c', answer)
	return err
}

// lucidContext has an initiator's keys, as MIT's library exports them.
type lucidContext struct {
	Subkey   bool   `json:"subkey"` // whether it is the acceptor's
	Enctype  int32  `json:"enctype"`
	Key      string `json:"key"`
	Sequence uint64 `json:"sequence"`
	End      int64  `json:"end"`
}

// establishPair makes a context with both ends in the peer, which stays the acceptor, and
// returns the initiator's keys.
func (p *gssPeer) establishPair(i initiation) (l lucidContext, err error) {
	arg, err := json.Marshal(i)
	if err != nil {
		return l, err
	}
	answer, err := p.sendOrder('p', arg)
	if err != nil {
		return l, err
	}
	return l, json.Unmarshal(answer, &l)
}

// Wrap returns a sealed token.
func (p *gssPeer) Wrap(message []byte) ([]byte, error) { return p.sendOrder('w', message) }

// wrapRotated returns a sealed token with a rotation that is not 0.
func (p *gssPeer) wrapRotated(message []byte) ([]byte, error) { return p.sendOrder('r', message) }

// wrapClear returns a token without confidentiality.
func (p *gssPeer) wrapClear(message []byte) ([]byte, error) { return p.sendOrder('o', message) }

// Unwrap opens a sealed token.
func (p *gssPeer) Unwrap(token []byte) ([]byte, error) { return p.sendOrder('u', token) }

// signMessage returns a MIC token.
func (p *gssPeer) signMessage(message []byte) ([]byte, error) { return p.sendOrder('s', message) }

// verifyMessage checks a MIC token.
func (p *gssPeer) verifyMessage(token, message []byte) error {
	arg := binary.BigEndian.AppendUint32(nil, uint32(len(token)))
	_, err := p.sendOrder('v', append(append(arg, token...), message...))
	return err
}
