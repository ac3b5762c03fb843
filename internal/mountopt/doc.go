// Package mountopt parses the -o of a mount: the options of nfs(5), those of
// mount(8) and fstab(5) that a mount must accept, and some of this project's
// own. It must not know how a mount is made, nor any server.
package mountopt
