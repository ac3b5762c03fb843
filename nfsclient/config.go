package nfsclient

import (
	"os"
	"time"

	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
)

// A Config configures a Client. The zero value suits most uses.
type Config struct {
	// Cred is the credential of all calls; nil means ProcessCred.
	Cred *rpcmsg.Cred

	// ReadSize and WriteSize limit the bytes of one READ and one WRITE of a
	// File; 0 means 1 MiB. The server's limits apply too.
	ReadSize, WriteSize int

	// Depth is how many READs or WRITEs one transfer of a File has in
	// flight; 0 means 16. It is clipped to 1 to 1024.
	Depth int

	// Window is how many bytes of one CopyFrom may wait in memory for the
	// server to put them on stable storage; 0 means 64 MiB. It is raised to two
	// WRITEs.
	Window int

	// Patience is how long a call is repeated that the server puts off
	// (NFS3ERR_JUKEBOX); 0 means a minute. If negative, the call is not
	// repeated.
	Patience time.Duration
}

func (c *Config) fill() {
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

// ProcessCred returns the AUTH_SYS credential of this process: its effective
// user and group, and its supplementary groups. RPC carries 16 of them (RFC
// 5531, Appendix A).
func ProcessCred() rpcmsg.Cred {
	cred := rpcmsg.Cred{Flavor: rpcmsg.AuthSys, UID: uint32(os.Geteuid()), GID: uint32(os.Getegid())}
	groups, _ := os.Getgroups() // without groups the server may refuse, which is reported
	for _, g := range groups {
		if uint32(g) != cred.GID {
			cred.GIDs = append(cred.GIDs, uint32(g))
		}
	}
	return cred
}
