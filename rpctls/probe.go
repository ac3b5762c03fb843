package rpctls

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/xdr"
)

// token is the body of the verifier of a server that begins with TLS (RFC 9289,
// Section 4.1).
var token = []byte("STARTTLS")

// Positions in a call without a body in its credential (RFC 5531, Section 9), in
// bytes from the XID on.
const (
	procAt   = 5 * 4
	flavorAt = 6 * 4
	probeLen = 10 * 4
	verfAt   = 3 * 4 // of an accepted reply
)

// AppendProbe appends the call that asks a server for TLS: procedure 0 of a
// program with an empty credential of AUTH_TLS (RFC 9289, Section 4.1).
func AppendProbe(b []byte, xid, prog, vers uint32) []byte {
	for _, w := range [...]uint32{
		xid, rpcmsg.MsgCall, rpcmsg.Version, prog, vers, 0,
		rpcmsg.AuthTLS, 0, rpcmsg.AuthNone, 0,
	} {
		b = xdr.AppendUint32(b, w)
	}
	return b
}

// isProbe reports whether a call asks for TLS. A call that does so in another way
// than Section 4.1 has it comes with the denial of that section.
func isProbe(msg []byte) (is bool, denial error) {
	if len(msg) < probeLen || word(msg, flavorAt) != rpcmsg.AuthTLS ||
		word(msg, 4) != rpcmsg.MsgCall || word(msg, 8) != rpcmsg.Version {
		return false, nil
	}
	r := xdr.NewReader(msg)
	h, err := rpcmsg.ReadCall(&r)
	switch {
	case err != nil || h.Proc != 0 || len(h.Cred.Body) > 0:
		return true, rpcmsg.AuthBadCred
	case h.Verf.Flavor != rpcmsg.AuthNone || len(h.Verf.Body) > 0:
		return true, rpcmsg.AuthBadVerf
	}
	return true, nil
}

// makePlain turns a probe into a call without a credential, which every program
// answers.
func makePlain(msg []byte) { binary.BigEndian.PutUint32(msg[flavorAt:], rpcmsg.AuthNone) }

// addToken puts the token into the empty verifier of an accepted reply. It returns
// false for another reply.
func addToken(reply []byte) ([]byte, bool) {
	if len(reply) < rpcmsg.AcceptedLen || word(reply, 8) != rpcmsg.MsgAccepted ||
		word(reply, verfAt) != rpcmsg.AuthNone || word(reply, verfAt+4) != 0 {
		return reply, false
	}
	n := len(reply)
	reply = append(reply, token...)
	at := verfAt + 8
	copy(reply[at+len(token):], reply[at:n])
	copy(reply[at:], token)
	binary.BigEndian.PutUint32(reply[verfAt+4:], uint32(len(token)))
	return reply, true
}

func word(b []byte, at int) uint32 { return binary.BigEndian.Uint32(b[at:]) }

var errAnswer = errors.New("the answer to the AUTH_TLS probe is no reply of RPC")

// readAnswer reads the reply to probe xid. It returns nil if the client must
// continue with TLS, whatever the accept_stat is, and otherwise the reason for
// which it must not (RFC 9289, Section 4.1).
func readAnswer(msg []byte, xid uint32) error {
	r := xdr.NewReader(msg)
	got, direction, stat := r.Uint32(), r.Uint32(), r.Uint32()
	if r.Err() != nil || got != xid || direction != rpcmsg.MsgReply || stat > rpcmsg.MsgDenied {
		return errAnswer
	}
	if stat == rpcmsg.MsgDenied {
		return denied(&r)
	}
	flavor, body := r.Uint32(), r.Opaque(rpcmsg.MaxAuthBody)
	r.Uint32() // accept_stat
	switch {
	case r.Err() != nil:
		return errAnswer
	case flavor != rpcmsg.AuthNone || !bytes.Equal(body, token):
		return errors.New("its answer to the AUTH_TLS probe lacks STARTTLS")
	}
	return nil
}

func denied(r *xdr.Reader) error {
	reject, value := r.Uint32(), r.Uint32()
	switch {
	case r.Err() != nil:
		return errAnswer
	case reject == rpcmsg.DeniedAuth:
		return fmt.Errorf("it denies the AUTH_TLS probe with %s", rpcmsg.AuthError(value).Name())
	}
	return errors.New("it speaks another version of RPC")
}

// The mark of a record's fragment (RFC 5531, Section 11).
const (
	markLen  = 4
	lastFrag = 1 << 31
)

// takeRecord returns the first record of a stream and the bytes behind it, or false
// if b ends before the record does.
func takeRecord(b []byte) (msg, behind []byte, whole bool, err error) {
	for {
		if len(b) < markLen {
			return nil, nil, false, nil
		}
		mark := binary.BigEndian.Uint32(b)
		n := mark &^ lastFrag
		if n > maxAnswer || len(msg)+int(n) > maxAnswer {
			return nil, nil, false, errAnswer
		}
		if b = b[markLen:]; len(b) < int(n) {
			return nil, nil, false, nil
		}
		msg, b = append(msg, b[:n]...), b[n:]
		if mark&lastFrag != 0 {
			return msg, b, true, nil
		}
		if n == 0 {
			return nil, nil, false, errAnswer // fragments without bytes could go on for ever
		}
	}
}
