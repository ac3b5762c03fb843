package krb5

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/nfsrdma/nfsrdma/gss"
)

// An errorCode is an error of Kerberos (RFC 4120, Section 7.5.9). It is the Minor
// of an Error of this package.
type errorCode int32

const (
	codePolicy       errorCode = 12 // KDC_ERR_POLICY
	codeEnctype      errorCode = 14 // KDC_ERR_ETYPE_NOSUPP
	codePath         errorCode = 28 // KDC_ERR_PATH_NOT_ACCEPTED
	codeIntegrity    errorCode = 31 // KRB_AP_ERR_BAD_INTEGRITY
	codeExpired      errorCode = 32 // KRB_AP_ERR_TKT_EXPIRED
	codeNotYet       errorCode = 33 // KRB_AP_ERR_TKT_NYV
	codeRepeat       errorCode = 34 // KRB_AP_ERR_REPEAT
	codeNotUs        errorCode = 35 // KRB_AP_ERR_NOT_US
	codeMatch        errorCode = 36 // KRB_AP_ERR_BADMATCH
	codeSkew         errorCode = 37 // KRB_AP_ERR_SKEW
	codeBadVersion   errorCode = 39 // KRB_AP_ERR_BADVERSION
	codeMessageType  errorCode = 40 // KRB_AP_ERR_MSG_TYPE
	codeKeyVersion   errorCode = 44 // KRB_AP_ERR_BADKEYVER
	codeNoKey        errorCode = 45 // KRB_AP_ERR_NOKEY
	codeInapplicable errorCode = 50 // KRB_AP_ERR_INAPP_CKSUM
	codeGeneric      errorCode = 60 // KRB_ERR_GENERIC
)

// reasons are the words of Reason.
var reasons = map[errorCode]string{
	codePolicy: "restricted", codeEnctype: "encryption type", codePath: "transited realms", codeIntegrity: "forged",
	codeExpired: "expired", codeNotYet: "not valid yet", codeRepeat: "repeated", codeNotUs: "other server",
	codeMatch: "other client", codeSkew: "clocks", codeBadVersion: "malformed", codeMessageType: "malformed",
	codeKeyVersion: "key version", codeNoKey: "no key", codeInapplicable: "checksum", codeGeneric: "malformed",
}

// Reason returns one or two words for the Minor of an Error of an Acceptor, for
// counters, or "other". Different numbers may have the same words.
func Reason(minor uint32) string {
	if words, ok := reasons[errorCode(minor)]; ok {
		return words
	}
	return "other"
}

// A protocolError is a constant of a message that has another value.
type protocolError struct {
	code errorCode
	got  int32
}

func (e *protocolError) Error() string {
	if e.code == codeBadVersion {
		return fmt.Sprintf("a message has version %d of Kerberos, not %d", e.got, protocolVersion)
	}
	return fmt.Sprintf("a message has type %d, not that of an AP-REQ", e.got)
}

// principalText returns a name as people write it.
func principalText(p gss.Principal) string { return escape(strings.Join(p.Name, "/") + "@" + p.Realm) }

// serviceText returns the name of a service without its realm.
func serviceText(name []string) string { return escape(strings.Join(name, "/")) }

// maxNamed is how many bytes of a peer's name are written: unknown peers may name
// anything.
const maxNamed = 256

// escape writes a name that comes from a peer, so that a log stays readable.
func escape(name string) string {
	rest := ""
	if len(name) > maxNamed {
		name, rest = name[:maxNamed], fmt.Sprintf("... (%d bytes)", len(name))
	}
	text := strconv.Quote(name)
	return text[1:len(text)-1] + rest
}
