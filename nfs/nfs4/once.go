package nfs4

import "github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"

// Once reports whether a call is a COMPOUND of version 4.0 with an operation that
// must not be executed again when the call is retransmitted, such as REMOVE. msg
// is the call message from its XID on. Later minor versions have none, because
// sessions keep their replies (RFC 8881, Section 2.10.6): a second cache could
// answer a slot's call with the reply to an earlier call of the same XID.
//
// Nothing behind an operation that cannot be decoded is executed, and the end of
// msg may be one.
func Once(msg []byte) bool {
	p, ok := rpcmsg.ProcedureOf(msg)
	if !ok || p != (rpcmsg.Procedure{Prog: Program, Vers: Version, Proc: ProcCompound}) {
		return false
	}
	w := words{msg, callHeader}
	w.opaque(4) // credential
	w.opaque(4) // verifier
	w.opaque(0) // tag
	if w.next() != Minor0 {
		return false
	}
	for n := w.next(); n > 0 && w.at < len(msg); n-- {
		switch Op(w.next()) {
		case OpPutRootFH, OpPutPubFH, OpSaveFH, OpRestoreFH, OpGetFH, OpLookupP, OpReadLink:
		case OpAccess:
			w.at += 4
		case OpRenew:
			w.at += 8
		case OpCommit:
			w.at += 8 + 4
		case OpRead:
			w.at += 4 + OtherSize + 8 + 4
		case OpPutFH, OpLookup, OpSecInfo:
			w.opaque(0)
		case OpGetAttr:
			w.list()
		case OpVerify, OpNVerify:
			w.list()
			w.opaque(0)
		case OpReadDir:
			w.at += 8 + VerifierSize + 4 + 4
			w.list()
		case OpLockT:
			w.opaque(4 + 8 + 8 + 8)
		default:
			return true
		}
		if w.at < 0 {
			return false // a length beyond any message
		}
	}
	return false
}

// list passes a list of words.
func (w *words) list() { w.at += 4 * int(w.next()) }
