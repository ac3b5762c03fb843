package krb5

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/nfsrdma/nfsrdma/oncrpc/gss"
)

// An errorCode is a Kerberos error code (RFC 4120, Section 7.5.9). It is the Minor in
// this package's Errors.
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

// reasonTexts are the texts that Reason returns.
var reasonTexts = map[errorCode]string{
	codePolicy: "restricted", codeEnctype: "encryption type", codePath: "transited realms", codeIntegrity: "forged",
	codeExpired: "expired", codeNotYet: "not valid yet", codeRepeat: "repeated", codeNotUs: "other server",
	codeMatch: "other client", codeSkew: "clocks", codeBadVersion: "malformed", codeMessageType: "malformed",
	codeKeyVersion: "key version", codeNoKey: "no key", codeInapplicable: "checksum", codeGeneric: "malformed",
}

// Reason describes an Acceptor Error's Minor in one or two words, for counters, or as
// "other". Different numbers may have the same description.
func Reason(minor uint32) string {
	if words, ok := reasonTexts[errorCode(minor)]; ok {
		return words
	}
	return "other"
}

// A protocolError reports a message field whose value is not the required constant.
type protocolError struct {
	code errorCode
	got  int32
}

func (e *protocolError) Error() string {
	if e.code == codeBadVersion {
		return fmt.Sprintf("a message has Kerberos version %d, not %d", e.got, protocolVersion)
	}
	return fmt.Sprintf("a message has type %d, which is not an AP-REQ's", e.got)
}

// principalText returns a principal's name in its usual form.
func principalText(p gss.Principal) string {
	return escapeName(strings.Join(p.Name, "/") + "@" + p.Realm)
}

// serviceText returns a service's name without its realm.
func serviceText(name []string) string { return escapeName(strings.Join(name, "/")) }

// maxNamed is the maximum number of bytes to write from a peer's name: unknown peers may
// send any name.
const maxNamed = 256

// escapeName quotes a name that a peer sent, so that a log stays readable.
func escapeName(name string) string {
	rest := ""
	if len(name) > maxNamed {
		name, rest = name[:maxNamed], fmt.Sprintf("... (%d bytes)", len(name))
	}
	text := strconv.Quote(name)
	return text[1:len(text)-1] + rest
}
