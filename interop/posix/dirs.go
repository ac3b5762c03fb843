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
	p.sayError("mkdir", unix.Mkdir(p.pathOf("d"), 0o755))
	p.sayError("with a slash", unix.Mkdir(p.pathOf("e/"), 0o755))
	p.sayError("below", unix.Mkdir(p.pathOf("d/sub"), 0o755))
	p.sayEntries("")
	p.sayEntries("d")
	p.sayEntries("e")
}

func mkdirWrong(p *probe) {
	p.makeFile("f", "")
	p.makeDir("d")
	p.mustSucceed(unix.Symlink("none", p.pathOf("dangling")))
	for _, name := range []string{"f", "d", "dangling", ".", "..", "d/.", "none/x", "f/x"} {
		p.sayError(name, unix.Mkdir(p.pathOf(name), 0o755))
	}
	p.sayError("no name", unix.Mkdir("", 0o755))
	p.sayEntries("")
}

func dirLinks(p *probe) {
	p.makeDir("d")
	p.sayLinks("d")
	p.makeDir("d/a")
	p.makeDir("d/b")
	p.makeFile("d/f", "")
	p.sayLinks("d")
	p.sayLinks("d/a")
	p.mustSucceed(unix.Rmdir(p.pathOf("d/a")))
	p.sayLinks("d")
	p.mustSucceed(unix.Rename(p.pathOf("d/b"), p.pathOf("b")))
	p.sayLinks("d")
}

func dirDots(p *probe) {
	p.makeDir("d")
	p.makeDir("d/sub")
	for _, e := range p.readAllEntries(p.openFD("d/sub", unix.O_RDONLY|unix.O_DIRECTORY)) {
		own, up := p.lstat("d/sub").Ino, p.lstat("d").Ino
		p.say("%s: itself %v, parent %v, directory %v", e.name, e.ino == own, e.ino == up, e.kind == unix.DT_DIR)
	}
	p.saySame("d/sub/..", "d")
	p.saySame("d/sub/../..", ".")
	p.saySame("d/.", "d")
}

func dirDeep(p *probe) {
	const depth = 30
	path := "d"
	p.makeDir(path)
	for range depth {
		path += "/d"
		p.makeDir(path)
	}
	p.makeFile(path+"/f", "deep")
	p.sayContent(path + "/f")
	p.saySame(path+strings.Repeat("/..", depth), "d")
}

func dirDescriptor(p *probe) {
	p.makeDir("d")
	fd := p.openFD("d", unix.O_RDONLY|unix.O_DIRECTORY)
	p.sayError("mkdir", unix.Mkdirat(fd, "sub", 0o755))
	p.sayError("symlink", unix.Symlinkat("x", fd, "symlink"))
	p.sayError("link", unix.Linkat(fd, "symlink", fd, "hard", 0))
	p.sayError("rename", unix.Renameat(fd, "hard", fd, "moved"))
	p.sayError("unlink", unix.Unlinkat(fd, "moved", 0))
	p.sayError("rmdir", unix.Unlinkat(fd, "sub", unix.AT_REMOVEDIR))
	p.sayError("access", unix.Faccessat(fd, "symlink", unix.F_OK, unix.AT_SYMLINK_NOFOLLOW))
	p.sayEntries("d")
}

// A path is at most 4,095 bytes long, however deep the tree is.
func pathLong(p *probe) {
	p.runIn(".", func() {
		long := strings.Repeat("x", 200)
		for range 25 {
			p.mustSucceed(unix.Mkdir(long, 0o755))
			p.mustSucceed(unix.Chdir(long))
		}
		p.sayError("far below", unix.Mkdir("sub", 0o755))
		p.sayError("by its name", unix.Access("sub", unix.F_OK))
		p.mustSucceed(unix.Rmdir("sub"))
		for range 25 {
			p.mustSucceed(unix.Chdir(".."))
			p.mustSucceed(unix.Rmdir(long))
		}
		p.mustSucceed(unix.Mkdir("d", 0o755))
		path := strings.Repeat("d/../", 818) + "d/./" // 4,094 bytes
		p.sayError("4094 bytes", unix.Access(path, unix.F_OK))
		p.sayError("4095 bytes", unix.Access(path+".", unix.F_OK))
		p.sayError("4096 bytes", unix.Access(path+"./", unix.F_OK))
	})
}

func pathParts(p *probe) {
	p.makeDir("d")
	p.makeFile("d/f", "content")
	for _, path := range []string{"d//f", "d/./f", "./d/../d/f", "d/f/", "d/f/.", "d/f/..", "none/../d/f"} {
		p.sayExists(path)
	}
}
