package tickets

import (
	"fmt"
	"os/user"
	"strconv"

	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
)

// A User is a local user with a program's groups.
type User struct {
	UID, GID uint32
	Groups   []uint32
}

// userOf returns the user in a Kerberos credential. Other credentials need no context.
func userOf(c *rpcmsg.Cred) (User, bool) {
	switch c.Flavor {
	case rpcmsg.AuthKrb5, rpcmsg.AuthKrb5i, rpcmsg.AuthKrb5p:
		return User{UID: c.UID, GID: c.GID, Groups: c.GIDs}, true
	}
	return User{}, false
}

// displayName returns the user's name for messages: from the host's user database, or
// else the number.
func (u User) displayName() string {
	id := strconv.FormatUint(uint64(u.UID), 10)
	if found, err := user.LookupId(id); err == nil {
		return found.Username
	}
	return fmt.Sprintf("user %s", id)
}
