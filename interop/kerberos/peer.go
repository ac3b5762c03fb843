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

// A Peer is a process that makes and takes tokens by MIT's library. It has one
// context. Errors of its methods have MIT's words.
type Peer struct {
	*interop.Process
	in  io.WriteCloser
	out io.ReadCloser
}

// StartPeer starts a peer with the KDC's realm and default credential cache. Its
// own errors go to log.
func StartPeer(k *KDC, log io.Writer) (*Peer, error) {
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
	cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = k.Env(), in, out, log
	p, err := interop.StartProcess(cmd)
	if err != nil {
		ours.Close()
		theirs.Close()
		return nil, err
	}
	return &Peer{p, ours, theirs}, nil
}

// Close ends the process.
func (p *Peer) Close() {
	p.in.Close()
	p.Kill()
	p.out.Close()
}

func (p *Peer) order(letter byte, arg []byte) ([]byte, error) {
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

// An Initiation is the initiator's part in a new context.
type Initiation struct {
	Service  string   `json:"service"` // nfs@server.test.example
	Flags    []string `json:"flags"`   // mutual, delegate, replay, sequence, integrity, confidentiality
	Bindings string   `json:"bindings,omitempty"`
}

// Initiate makes a new context, and returns its first token.
func (p *Peer) Initiate(i Initiation) ([]byte, error) {
	arg, err := json.Marshal(i)
	if err != nil {
		return nil, err
	}
	return p.order('i', arg)
}

// Complete hands the acceptor's answer to the initiator.
func (p *Peer) Complete(answer []byte) error {
	_, err := p.order('c', answer)
	return err
}

// Lucid are the keys of an initiator, as MIT's library exports them.
type Lucid struct {
	Subkey   bool   `json:"subkey"` // of the acceptor
	Enctype  int32  `json:"enctype"`
	Key      string `json:"key"`
	Sequence uint64 `json:"sequence"`
	End      int64  `json:"end"`
}

// Pair makes a context with both ends in the peer, which stays the acceptor, and
// returns the initiator's keys.
func (p *Peer) Pair(i Initiation) (l Lucid, err error) {
	arg, err := json.Marshal(i)
	if err != nil {
		return l, err
	}
	answer, err := p.order('p', arg)
	if err != nil {
		return l, err
	}
	return l, json.Unmarshal(answer, &l)
}

// Wrap returns a sealed token.
func (p *Peer) Wrap(message []byte) ([]byte, error) { return p.order('w', message) }

// WrapRotated returns a sealed token with a rotation that is not 0.
func (p *Peer) WrapRotated(message []byte) ([]byte, error) { return p.order('r', message) }

// WrapClear returns a token without confidentiality.
func (p *Peer) WrapClear(message []byte) ([]byte, error) { return p.order('o', message) }

// Unwrap opens a sealed token.
func (p *Peer) Unwrap(token []byte) ([]byte, error) { return p.order('u', token) }

// Sign returns a MIC token.
func (p *Peer) Sign(message []byte) ([]byte, error) { return p.order('s', message) }

// Verify checks a MIC token.
func (p *Peer) Verify(token, message []byte) error {
	arg := binary.BigEndian.AppendUint32(nil, uint32(len(token)))
	_, err := p.order('v', append(append(arg, token...), message...))
	return err
}
