package nfsclient

import (
	"os"
	"time"

	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
)

// A Config is how a Client behaves. The zero value is right for most.
type Config struct {
	// Cred is in whose name calls are made; nil means ProcessCred.
	Cred *rpcmsg.Cred

	// ReadSize and WriteSize are the most octets of one READ and one WRITE
	// of a File; 0 means 1 MiB. What the server allows is a limit too.
	ReadSize, WriteSize int

	// Depth is how many READs or WRITEs one transfer of a File has in
	// flight; 0 means 16. It is clipped to 1 to 1024.
	Depth int

	// Window is how many octets of one CopyFrom wait in memory for the
	// server to put them on stable storage; 0 means 64 MiB. It is raised
	// to two WRITEs.
	Window int

	// Patience is how long a call that the server puts off
	// (NFS3ERR_JUKEBOX) is made again and again; 0 means a minute. Below 0
	// it is not made again at all.
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

// orDefault returns n, at least 1, or def where n is 0.
func orDefault(n, def int) int {
	if n == 0 {
		return def
	}
	return max(1, n)
}

// ProcessCred returns the AUTH_SYS credential of this process: its effective
// user and group, and its other groups, of which RPC carries 16 (RFC 5531,
// Appendix A).
func ProcessCred() rpcmsg.Cred {
	cred := rpcmsg.Cred{Flavor: rpcmsg.AuthSys, UID: uint32(os.Geteuid()), GID: uint32(os.Getegid())}
	groups, _ := os.Getgroups() // without them the server may refuse, and says so
	for _, g := range groups {
		if uint32(g) != cred.GID {
			cred.GIDs = append(cred.GIDs, uint32(g))
		}
	}
	return cred
}
