package rpctls

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
)

// startTLSToken is the verifier body with which a server accepts TLS (RFC 9289, Section
// 4.1).
var startTLSToken = []byte("STARTTLS")

// Positions in a call whose credential has no body (RFC 5531, Section 9), in bytes from
// the XID on.
const (
	procAt   = 5 * 4
	flavorAt = 6 * 4
	probeLen = 10 * 4
	verfAt   = 3 * 4 // in an accepted reply
)

// AppendProbe appends the call that requests TLS from a server: a program's procedure 0
// with an empty AUTH_TLS credential (RFC 9289, Section 4.1).
func AppendProbe(b []byte, xid, prog, vers uint32) []byte {
	for _, w := range [...]uint32{
		xid, rpcmsg.MsgCall, rpcmsg.Version, prog, vers, 0,
		rpcmsg.AuthTLS, 0, rpcmsg.AuthNone, 0,
	} {
		b = xdr.AppendUint32(b, w)
	}
	return b
}

// isProbe reports whether a call requests TLS. If the call does not follow Section 4.1,
// it also returns that section's denial.
func isProbe(msg []byte) (is bool, denial error) {
	if len(msg) < probeLen || uint32At(msg, flavorAt) != rpcmsg.AuthTLS ||
		uint32At(msg, 4) != rpcmsg.MsgCall || uint32At(msg, 8) != rpcmsg.Version {
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

// makePlain turns a probe into a call without a credential, to which every program
// replies.
func makePlain(msg []byte) { binary.BigEndian.PutUint32(msg[flavorAt:], rpcmsg.AuthNone) }

// addToken puts the token into an accepted reply's empty verifier. It returns false for
// another reply.
func addToken(reply []byte) ([]byte, bool) {
	if len(reply) < rpcmsg.AcceptedLen || uint32At(reply, 8) != rpcmsg.MsgAccepted ||
		uint32At(reply, verfAt) != rpcmsg.AuthNone || uint32At(reply, verfAt+4) != 0 {
		return reply, false
	}
	n := len(reply)
	reply = append(reply, startTLSToken...)
	at := verfAt + 8
	copy(reply[at+len(startTLSToken):], reply[at:n])
	copy(reply[at:], startTLSToken)
	binary.BigEndian.PutUint32(reply[verfAt+4:], uint32(len(startTLSToken)))
	return reply, true
}

func uint32At(b []byte, at int) uint32 { return binary.BigEndian.Uint32(b[at:]) }

var errProbeReply = errors.New("the reply to the AUTH_TLS probe is not an RPC reply")

// checkReply reads the reply to probe xid. It returns nil if the client must continue
// with TLS, whatever the accept_stat is, and otherwise the reason why it must not (RFC
// 9289, Section 4.1).
func checkReply(msg []byte, xid uint32) error {
	r := xdr.NewReader(msg)
	got, direction, stat := r.Uint32(), r.Uint32(), r.Uint32()
	if r.Err() != nil || got != xid || direction != rpcmsg.MsgReply || stat > rpcmsg.MsgDenied {
		return errProbeReply
	}
	if stat == rpcmsg.MsgDenied {
		return readDenial(&r)
	}
	flavor, body := r.Uint32(), r.Opaque(rpcmsg.MaxAuthBody)
	r.Uint32() // accept_stat
	switch {
	case r.Err() != nil:
		return errProbeReply
	case flavor != rpcmsg.AuthNone || !bytes.Equal(body, startTLSToken):
		return errors.New("its reply to the AUTH_TLS probe lacks STARTTLS")
	}
	return nil
}

func readDenial(r *xdr.Reader) error {
	reject, value := r.Uint32(), r.Uint32()
	switch {
	case r.Err() != nil:
		return errProbeReply
	case reject == rpcmsg.DeniedAuth:
		return fmt.Errorf("it denies the AUTH_TLS probe with %s", rpcmsg.AuthError(value).Name())
	}
	return errors.New("it uses another RPC version")
}

// Record marks (RFC 5531, Section 11).
const (
	markLen  = 4
	lastFrag = 1 << 31
)

// splitRecord returns a stream's first record and the bytes after it, or false if b ends
// before the record does.
func splitRecord(b []byte) (msg, behind []byte, whole bool, err error) {
	for {
		if len(b) < markLen {
			return nil, nil, false, nil
		}
		mark := binary.BigEndian.Uint32(b)
		n := mark &^ lastFrag
		if n > maxReply || len(msg)+int(n) > maxReply {
			return nil, nil, false, errProbeReply
		}
		if b = b[markLen:]; len(b) < int(n) {
			return nil, nil, false, nil
		}
		msg, b = append(msg, b[:n]...), b[n:]
		if mark&lastFrag != 0 {
			return msg, b, true, nil
		}
		if n == 0 {
			return nil, nil, false, errProbeReply // empty fragments could continue forever
		}
	}
}
