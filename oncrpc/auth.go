package oncrpc

// A Cred is a call's credential, decoded.
type Cred struct {
	Flavor uint32   // AuthNone or AuthSys
	UID    uint32   // AuthSys
	GID    uint32   // AuthSys
	GIDs   []uint32 // AuthSys: at most 16
}

// Authentication flavours (RFC 5531, Section 8.1).
const (
	AuthNone uint32 = 0
	AuthSys  uint32 = 1
)
