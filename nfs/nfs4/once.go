package nfs4

import "github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"

// Once reports whether a call is an NFSv4.0 COMPOUND with an operation that must
// not be executed again when the call is retransmitted, such as REMOVE. msg is
// the call message from its XID on. Later minor versions have no such calls,
// because sessions cache their replies (RFC 8881, Section 2.10.6): a second cache
// could reply to a slot's call with the reply to an earlier call that had the
// same XID.
//
// Nothing after an operation that cannot be decoded is executed. The end of msg
// may be such an operation.
func Once(msg []byte) bool {
	p, ok := rpcmsg.ProcedureOf(msg)
	if !ok || p != (rpcmsg.Procedure{Prog: Program, Vers: Version, Proc: ProcCompound}) {
		return false
	}
	w := wordReader{msg, callHeader}
	w.skipOpaque(4) // credential
	w.skipOpaque(4) // verifier
	w.skipOpaque(0) // tag
	if w.nextWord() != Minor0 {
		return false
	}
	for n := w.nextWord(); n > 0 && w.at < len(msg); n-- {
		switch Op(w.nextWord()) {
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
			w.skipOpaque(0)
		case OpGetAttr:
			w.skipWordList()
		case OpVerify, OpNVerify:
			w.skipWordList()
			w.skipOpaque(0)
		case OpReadDir:
			w.at += 8 + VerifierSize + 4 + 4
			w.skipWordList()
		case OpLockT:
			w.skipOpaque(4 + 8 + 8 + 8)
		default:
			return true
		}
		if w.at < 0 {
			return false // a length beyond any message
		}
	}
	return false
}

// skipWordList skips a list of words.
func (w *wordReader) skipWordList() { w.at += 4 * int(w.nextWord()) }
