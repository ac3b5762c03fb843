package gss

import "fmt"

// A Major is a major status: a routine error from RFC 2743, Section 1.2.1.1, numbered as
// in RFC 2744, Section 3.9.1.
type Major uint32

// The major statuses.
const (
	Complete            Major = 0
	BadMech             Major = 1 << 16
	BadName             Major = 2 << 16
	BadNameType         Major = 3 << 16
	BadBindings         Major = 4 << 16
	BadStatus           Major = 5 << 16
	BadMIC              Major = 6 << 16
	NoCred              Major = 7 << 16
	NoContext           Major = 8 << 16
	DefectiveToken      Major = 9 << 16
	DefectiveCredential Major = 10 << 16
	CredentialsExpired  Major = 11 << 16
	ContextExpired      Major = 12 << 16
	Failure             Major = 13 << 16
	ContinueNeeded      Major = 1
	DuplicateToken      Major = 2
	OldToken            Major = 4
)

var majorNames = map[Major]string{
	Complete: "GSS_S_COMPLETE", BadMech: "GSS_S_BAD_MECH", BadName: "GSS_S_BAD_NAME", BadNameType: "GSS_S_BAD_NAMETYPE",
	BadBindings: "GSS_S_BAD_BINDINGS", BadStatus: "GSS_S_BAD_STATUS", BadMIC: "GSS_S_BAD_MIC", NoCred: "GSS_S_NO_CRED",
	NoContext: "GSS_S_NO_CONTEXT", DefectiveToken: "GSS_S_DEFECTIVE_TOKEN", DefectiveCredential: "GSS_S_DEFECTIVE_CREDENTIAL",
	CredentialsExpired: "GSS_S_CREDENTIALS_EXPIRED", ContextExpired: "GSS_S_CONTEXT_EXPIRED", Failure: "GSS_S_FAILURE",
	ContinueNeeded: "GSS_S_CONTINUE_NEEDED", DuplicateToken: "GSS_S_DUPLICATE_TOKEN", OldToken: "GSS_S_OLD_TOKEN",
}

// String returns the name from RFC 2744.
func (m Major) String() string {
	if s, ok := majorNames[m]; ok {
		return s
	}
	return fmt.Sprintf("major status %#x", uint32(m))
}

// An Error is a failure in a Context or an Acceptor.
type Error struct {
	Major Major
	Minor uint32 // the mechanism's own status
	Token []byte // for the initiator, nil if there is none
	Err   error  // the cause and the remedy
}

// Error returns the text and the major status.
func (e *Error) Error() string { return fmt.Sprintf("%v (%v)", e.Err, e.Major) }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }
