package posix

import (
	"strings"

	"golang.org/x/sys/unix"
)

var dirCases = []Case{
	{"mkdir", anyone, mkdirPlain},
	{"mkdir-wrong", anyone, mkdirWrong},
	{"dir-links", anyone, dirLinks},
	{"dir-dots", anyone, dirDots},
	{"dir-deep", anyone, dirDeep},
	{"dir-descriptor", anyone, dirDescriptor},
	{"path-long", anyone, pathLong},
	{"path-parts", anyone, pathParts},
}

func mkdirPlain(p *probe) {
	p.result("mkdir", unix.Mkdir(p.at("d"), 0o755))
	p.result("with a slash", unix.Mkdir(p.at("e/"), 0o755))
	p.result("below", unix.Mkdir(p.at("d/sub"), 0o755))
	p.lists("")
	p.lists("d")
	p.lists("e")
}

func mkdirWrong(p *probe) {
	p.file("f", "")
	p.mkdir("d")
	p.need(unix.Symlink("none", p.at("dangling")))
	for _, name := range []string{"f", "d", "dangling", ".", "..", "d/.", "none/x", "f/x"} {
		p.result(name, unix.Mkdir(p.at(name), 0o755))
	}
	p.result("no name", unix.Mkdir("", 0o755))
	p.lists("")
}

func dirLinks(p *probe) {
	p.mkdir("d")
	p.links("d")
	p.mkdir("d/a")
	p.mkdir("d/b")
	p.file("d/f", "")
	p.links("d")
	p.links("d/a")
	p.need(unix.Rmdir(p.at("d/a")))
	p.links("d")
	p.need(unix.Rename(p.at("d/b"), p.at("b")))
	p.links("d")
}

func dirDots(p *probe) {
	p.mkdir("d")
	p.mkdir("d/sub")
	for _, e := range p.all(p.fd("d/sub", unix.O_RDONLY|unix.O_DIRECTORY)) {
		own, up := p.status("d/sub").Ino, p.status("d").Ino
		p.say("%s: itself %v, parent %v, directory %v", e.name, e.ino == own, e.ino == up, e.kind == unix.DT_DIR)
	}
	p.same("d/sub/..", "d")
	p.same("d/sub/../..", ".")
	p.same("d/.", "d")
}

func dirDeep(p *probe) {
	const depth = 30
	path := "d"
	p.mkdir(path)
	for range depth {
		path += "/d"
		p.mkdir(path)
	}
	p.file(path+"/f", "deep")
	p.holds(path + "/f")
	p.same(path+strings.Repeat("/..", depth), "d")
}

func dirDescriptor(p *probe) {
	p.mkdir("d")
	fd := p.fd("d", unix.O_RDONLY|unix.O_DIRECTORY)
	p.result("mkdir", unix.Mkdirat(fd, "sub", 0o755))
	p.result("symlink", unix.Symlinkat("x", fd, "symlink"))
	p.result("link", unix.Linkat(fd, "symlink", fd, "hard", 0))
	p.result("rename", unix.Renameat(fd, "hard", fd, "moved"))
	p.result("unlink", unix.Unlinkat(fd, "moved", 0))
	p.result("rmdir", unix.Unlinkat(fd, "sub", unix.AT_REMOVEDIR))
	p.result("access", unix.Faccessat(fd, "symlink", unix.F_OK, unix.AT_SYMLINK_NOFOLLOW))
	p.lists("d")
}

// A path is at most 4,095 bytes long, however deep the tree is.
func pathLong(p *probe) {
	p.here(".", func() {
		long := strings.Repeat("x", 200)
		for range 25 {
			p.need(unix.Mkdir(long, 0o755))
			p.need(unix.Chdir(long))
		}
		p.result("far below", unix.Mkdir("sub", 0o755))
		p.result("by its name", unix.Access("sub", unix.F_OK))
		p.need(unix.Rmdir("sub"))
		for range 25 {
			p.need(unix.Chdir(".."))
			p.need(unix.Rmdir(long))
		}
		p.need(unix.Mkdir("d", 0o755))
		path := strings.Repeat("d/../", 818) + "d/./" // 4,094 bytes
		p.result("4094 bytes", unix.Access(path, unix.F_OK))
		p.result("4095 bytes", unix.Access(path+".", unix.F_OK))
		p.result("4096 bytes", unix.Access(path+"./", unix.F_OK))
	})
}

func pathParts(p *probe) {
	p.mkdir("d")
	p.file("d/f", "content")
	for _, path := range []string{"d//f", "d/./f", "./d/../d/f", "d/f/", "d/f/.", "d/f/..", "none/../d/f"} {
		p.exists(path)
	}
}
