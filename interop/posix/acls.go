package posix

import (
	"encoding/binary"
	"fmt"
	"strings"

	"golang.org/x/sys/unix"
)

// aclCases are not in the suite, because mountrdma has no access control lists.
var aclCases = []Case{
	{"acl-set", anyone, aclSet},
	{"acl-plain", anyone, aclPlain},
	{"acl-inherited", anyone, aclInherited},
	{"acl-wrong", anyone, aclWrong},
	{"acl-long", anyone, aclLong},
	{"acl-rights", root, aclRights},
	{"acl-by-user", root, aclByUser},
}

// The extended attributes that hold lists.
const (
	aclAccess  = "system.posix_acl_access"
	aclDefault = "system.posix_acl_default"
)

// An ace is an entry of a list, with the numbers of Linux's attribute.
type ace struct {
	tag  uint16
	perm uint16
	id   uint32
}

const (
	aceOwner      = 0x01
	aceUser       = 0x02
	aceGroup      = 0x04
	aceNamedGroup = 0x08
	aceMask       = 0x10
	aceOther      = 0x20

	aceNoID = 1<<32 - 1
)

// shared is a list that lets otherUser and otherGroup read.
var shared = []ace{
	{aceOwner, 7, aceNoID},
	{aceUser, 4, otherUser},
	{aceGroup, 5, aceNoID},
	{aceNamedGroup, 4, otherGroup},
	{aceMask, 5, aceNoID},
	{aceOther, 0, aceNoID},
}

// setList sets a list of a file.
func (p *probe) setList(name, list string, aces ...ace) error {
	b := binary.LittleEndian.AppendUint32(nil, 2)
	for _, e := range aces {
		b = binary.LittleEndian.AppendUint16(b, e.tag)
		b = binary.LittleEndian.AppendUint16(b, e.perm)
		b = binary.LittleEndian.AppendUint32(b, e.id)
	}
	return unix.Setxattr(p.at(name), list, b, 0)
}

// acls notes the mode of a file and its lists.
func (p *probe) acls(name string) {
	p.mode(name)
	for _, list := range []string{aclAccess, aclDefault} {
		b := make([]byte, 64<<10)
		n, err := unix.Getxattr(p.at(name), list, b)
		if err != nil {
			p.result(name+" "+list, err)
			continue
		}
		p.say("%s %s: %s", name, list, listText(b[:n]))
	}
}

func listText(b []byte) string {
	var words []string
	for b = b[min(4, len(b)):]; len(b) >= 8; b = b[8:] {
		word := fmt.Sprintf("%x:%o", binary.LittleEndian.Uint16(b), binary.LittleEndian.Uint16(b[2:]))
		if id := binary.LittleEndian.Uint32(b[4:]); id != aceNoID {
			word += fmt.Sprintf(":%d", id)
		}
		words = append(words, word)
	}
	return strings.Join(words, " ")
}

func aclSet(p *probe) {
	p.file("f", "")
	p.mkdir("d")
	for _, name := range []string{"f", "d"} {
		p.result("set", p.setList(name, aclAccess, shared...))
		p.acls(name)
		p.result("chmod", unix.Chmod(p.at(name), 0o640))
		p.acls(name)
		p.result("remove", unix.Removexattr(p.at(name), aclAccess))
		p.acls(name)
		p.result("remove again", unix.Removexattr(p.at(name), aclAccess))
	}
}

// aclPlain sets a list that a mode can express.
func aclPlain(p *probe) {
	p.file("f", "")
	p.result("set", p.setList("f", aclAccess, ace{aceOwner, 6, aceNoID}, ace{aceGroup, 4, aceNoID}, ace{aceOther, 1, aceNoID}))
	p.acls("f")
	p.result("with a mask", p.setList("f", aclAccess,
		ace{aceOwner, 6, aceNoID}, ace{aceGroup, 7, aceNoID}, ace{aceMask, 4, aceNoID}, ace{aceOther, 0, aceNoID}))
	p.acls("f")
}

// aclInherited makes objects in a directory with a default list, which
// overrides the umask.
func aclInherited(p *probe) {
	defer unix.Umask(unix.Umask(0o077))
	p.mkdir("d")
	p.result("set", p.setList("d", aclDefault, shared...))
	p.acls("d")
	p.create("d/file", 0o666)
	p.create("d/own", 0o600)
	p.need(unix.Mkdir(p.at("d/dir"), 0o777))
	p.need(unix.Mknod(p.at("d/fifo"), unix.S_IFIFO|0o666, 0))
	p.need(unix.Symlink("file", p.at("d/symlink")))
	for _, name := range []string{"d/file", "d/own", "d/dir", "d/fifo"} {
		p.acls(name)
	}
	p.create("d/dir/below", 0o644)
	p.acls("d/dir/below")
	p.result("remove", unix.Removexattr(p.at("d"), aclDefault))
	p.create("d/later", 0o666)
	p.acls("d")
	p.acls("d/later")
}

func aclWrong(p *probe) {
	p.file("f", "")
	p.result("default of a file", p.setList("f", aclDefault, shared...))
	p.result("no owner", p.setList("f", aclAccess, shared[1:]...))
	p.result("no mask", p.setList("f", aclAccess, shared[0], shared[1], shared[2], shared[5]))
	p.result("twice the same", p.setList("f", aclAccess, shared[0], shared[1], shared[1], shared[2], shared[4], shared[5]))
	p.result("version", unix.Setxattr(p.at("f"), aclAccess, []byte{1, 0, 0, 0}, 0))
	p.acls("f")
}

func aclLong(p *probe) {
	p.file("f", "")
	aces := []ace{shared[0]}
	for id := range uint32(300) {
		aces = append(aces, ace{aceUser, uint16(id % 8), 5000 + id})
	}
	aces = append(aces, shared[2:]...)
	p.result("set", p.setList("f", aclAccess, aces...))
	p.acls("f")
}

// aclRights checks the rights that a list grants.
func aclRights(p *probe) {
	p.file("f", "content")
	p.need(unix.Chmod(p.at("f"), 0o600))
	read := func(what string) {
		for _, uid := range []int{user, otherUser} {
			for _, groups := range [][]uint32{nil, {otherGroup}} {
				p.as(uid, group, groups, func() {
					fd, err := unix.Open(p.at("f"), unix.O_RDONLY|unix.O_CLOEXEC, 0)
					p.result(fmt.Sprintf("%s, user %d of %v", what, uid, groups), err)
					if err == nil {
						_ = unix.Close(fd)
					}
				})
			}
		}
	}
	read("without")
	p.result("set", p.setList("f", aclAccess, shared...))
	read("with")
	p.result("chmod", unix.Chmod(p.at("f"), 0o600))
	read("masked")
	p.result("remove", unix.Removexattr(p.at("f"), aclAccess))
	read("removed")
}

// aclByUser sets lists of another user's files.
func aclByUser(p *probe) {
	p.file("f", "")
	p.need(unix.Chown(p.at("f"), user, group))
	p.as(otherUser, otherGroup, nil, func() { p.result("another", p.setList("f", aclAccess, shared...)) })
	p.as(user, group, nil, func() { p.result("the owner", p.setList("f", aclAccess, shared...)) })
	p.acls("f")
	p.as(otherUser, otherGroup, nil, func() {
		p.result("another removes", unix.Removexattr(p.at("f"), aclAccess))
		p.acls("f")
	})
}
