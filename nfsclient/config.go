package nfsclient

import (
	"os"
	"time"

	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
)

// A Config configures a Client. The zero value suits most uses.
type Config struct {
	// Cred is the credential for all calls; nil means ProcessCred.
	Cred *rpcmsg.Cred

	// ReadSize and WriteSize are the maximum sizes in bytes of a File's READs
	// and WRITEs; 0 means 1 MiB. The server's limits apply too.
	ReadSize, WriteSize int

	// Depth is the number of READs or WRITEs that a File's transfer keeps in
	// flight; 0 means 16. It is clipped to the range 1 to 1024.
	Depth int

	// Window is the number of bytes that a CopyFrom keeps in memory until they
	// are on the server's stable storage; 0 means 64 MiB. The minimum is two
	// WRITEs.
	Window int

	// Patience is the time for which a call is repeated while the server
	// postpones it (NFS3ERR_JUKEBOX); 0 means a minute. If it is negative,
	// calls are not repeated.
	Patience time.Duration
}

func (c *Config) setDefaults() {
	if c.Cred == nil {
		cred := ProcessCred()
		c.Cred = &cred
	}
	c.ReadSize = orDefault(c.ReadSize, defaultTransfer)
	c.WriteSize = orDefault(c.WriteSize, defaultTransfer)
	c.Depth = min(orDefault(c.Depth, defaultDepth), maxDepth)
	c.Window = orDefault(c.Window, defaultWindow)
	if c.Patience == 0 {
		c.Patience = defaultPatience
	}
}

// orDefault returns n, at least 1, or def if n is 0.
func orDefault(n, def int) int {
	if n == 0 {
		return def
	}
	return max(1, n)
}

// ProcessCred returns this process's AUTH_SYS credential: its effective user
// and group, and its supplementary groups. RPC carries 16 of those (RFC 5531,
// Appendix A).
func ProcessCred() rpcmsg.Cred {
	cred := rpcmsg.Cred{Flavor: rpcmsg.AuthSys, UID: uint32(os.Geteuid()), GID: uint32(os.Getegid())}
	groups, _ := os.Getgroups() // without groups the server may deny access, which is reported
	for _, g := range groups {
		if uint32(g) != cred.GID {
			cred.GIDs = append(cred.GIDs, uint32(g))
		}
	}
	return cred
}
