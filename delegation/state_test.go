package delegation

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"reflect"
	"slices"
	"time"
	"unsafe"
)

// The explorer copies whole worlds and recognizes known worlds. Both functions
// follow the types by reflection, so no field can be forgotten. The function
// for each type is built once.

// A copyFunc makes dst, a shallow copy of src, independent of it.
type copyFunc func(c *copier, dst, src unsafe.Pointer)

// A copier makes one copy. Pointers to the same object remain equal in the
// copy.
type copier struct{ from, to []unsafe.Pointer }

var copyFuncs = make(map[reflect.Type]*copyFunc)

// copyWorld returns a deep copy of *p.
func copyWorld[T any](p *T) *T {
	var c copier
	q := p
	(*copierOf(reflect.TypeFor[*T]()))(&c, unsafe.Pointer(&q), unsafe.Pointer(&p))
	return q
}

// copierOf returns the copier for a type; *nil for a type without pointers.
func copierOf(t reflect.Type) *copyFunc {
	f := copyFuncs[t]
	if f == nil {
		f = new(copyFunc)
		copyFuncs[t] = f // set now, because types may be recursive
		if hasPointers(t, nil) {
			*f = newCopier(t)
		}
	}
	return f
}

// hasPointers reports whether a type has pointers.
func hasPointers(t reflect.Type, seen []reflect.Type) bool {
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map, reflect.Interface, reflect.Func, reflect.Chan:
		return true
	case reflect.Array:
		return hasPointers(t.Elem(), seen)
	case reflect.Struct:
		for i := range t.NumField() {
			if hasPointers(t.Field(i).Type, seen) {
				return true
			}
		}
	}
	return false
}

func newCopier(t reflect.Type) copyFunc {
	switch t.Kind() {
	case reflect.Pointer:
		elem := copierOf(t.Elem())
		return func(c *copier, dst, src unsafe.Pointer) {
			*(*unsafe.Pointer)(dst) = c.copyPointer(t.Elem(), elem, *(*unsafe.Pointer)(src))
		}
	case reflect.Struct:
		type field struct {
			off uintptr
			f   *copyFunc
		}
		var fields []field
		for i := range t.NumField() {
			if hasPointers(t.Field(i).Type, nil) {
				fields = append(fields, field{t.Field(i).Offset, copierOf(t.Field(i).Type)})
			}
		}
		return func(c *copier, dst, src unsafe.Pointer) {
			for _, f := range fields {
				(*f.f)(c, unsafe.Add(dst, f.off), unsafe.Add(src, f.off))
			}
		}
	case reflect.Array:
		elem := copierOf(t.Elem())
		return func(c *copier, dst, src unsafe.Pointer) {
			for i := range t.Len() {
				off := uintptr(i) * t.Elem().Size()
				(*elem)(c, unsafe.Add(dst, off), unsafe.Add(src, off))
			}
		}
	case reflect.Slice:
		return sliceCopier(t)
	case reflect.Map:
		return mapCopier(t)
	case reflect.Interface:
		return func(c *copier, dst, src unsafe.Pointer) {
			v := reflect.NewAt(t, src).Elem()
			if v.IsNil() {
				return
			}
			p := v.Elem() // a pointer: interfaces in worlds hold nothing else
			q := c.copyPointer(p.Type().Elem(), copierOf(p.Type().Elem()), p.UnsafePointer())
			reflect.NewAt(t, dst).Elem().Set(reflect.NewAt(p.Type().Elem(), q))
		}
	}
	panic(fmt.Sprintf("cannot copy %v", t))
}

// copyPointer copies the object at p.
func (c *copier) copyPointer(t reflect.Type, elem *copyFunc, p unsafe.Pointer) unsafe.Pointer {
	if p == nil {
		return nil
	}
	if i := slices.Index(c.from, p); i >= 0 {
		return c.to[i]
	}
	v := reflect.New(t)
	v.Elem().Set(reflect.NewAt(t, p).Elem())
	q := v.UnsafePointer()
	c.from, c.to = append(c.from, p), append(c.to, q)
	if *elem != nil {
		(*elem)(c, q, p)
	}
	return q
}

func sliceCopier(t reflect.Type) copyFunc {
	elem, size := copierOf(t.Elem()), t.Elem().Size()
	return func(c *copier, dst, src unsafe.Pointer) {
		old := reflect.NewAt(t, src).Elem()
		if old.IsNil() {
			return
		}
		next := reflect.MakeSlice(t, old.Len(), old.Len())
		reflect.Copy(next, old)
		if *elem != nil {
			for i := range old.Len() {
				off := uintptr(i) * size
				(*elem)(c, unsafe.Add(next.UnsafePointer(), off), unsafe.Add(old.UnsafePointer(), off))
			}
		}
		reflect.NewAt(t, dst).Elem().Set(next)
	}
}

func mapCopier(t reflect.Type) copyFunc {
	elem := copierOf(t.Elem())
	return func(c *copier, dst, src unsafe.Pointer) {
		old := reflect.NewAt(t, src).Elem()
		next := reflect.MakeMapWithSize(t, old.Len())
		for it := old.MapRange(); it.Next(); {
			v, w := reflect.New(t.Elem()), reflect.New(t.Elem())
			v.Elem().Set(it.Value())
			w.Elem().Set(it.Value())
			if *elem != nil {
				(*elem)(c, w.UnsafePointer(), v.UnsafePointer())
			}
			next.SetMapIndex(it.Key(), w.Elem())
		}
		reflect.NewAt(t, dst).Elem().Set(next)
	}
}

// An encoder writes a canonical form of a state. Each pointer becomes the order
// of its first visit, and each time becomes its age.
type encoder struct {
	now time.Duration
	out []byte
	met []unsafe.Pointer
}

type encodeFunc func(e *encoder, p unsafe.Pointer)

var encodeFuncs = make(map[reflect.Type]*encodeFunc)

// unsaid names fields that are not part of a state: constants, and fields for
// reports only.
var unsaid = map[string]bool{"Grantor.cfg": true, "Grantor.stats": true, "Grantor.refused": true, "Grantor.attached": true, "Conn.number": true, "Holder.until": true, "world.now": true}

// encodeState returns the canonical form for the object at p.
func encodeState[T any](e *encoder, p *T) []byte {
	e.out, e.met = e.out[:0], e.met[:0]
	(*encoderOf(reflect.TypeFor[*T]()))(e, unsafe.Pointer(&p))
	return e.out
}

func encoderOf(t reflect.Type) *encodeFunc {
	f := encodeFuncs[t]
	if f == nil {
		f = new(encodeFunc)
		encodeFuncs[t] = f
		*f = newEncoder(t)
	}
	return f
}

func newEncoder(t reflect.Type) encodeFunc {
	switch t.Kind() {
	case reflect.Pointer:
		elem := encoderOf(t.Elem())
		return func(e *encoder, p unsafe.Pointer) { e.encodePointer(elem, *(*unsafe.Pointer)(p)) }
	case reflect.Struct:
		type field struct {
			off uintptr
			f   *encodeFunc
		}
		var fields []field
		for i := range t.NumField() {
			if f := t.Field(i); !unsaid[t.Name()+"."+f.Name] && f.Type.Size() > 0 {
				fields = append(fields, field{f.Offset, encoderOf(f.Type)})
			}
		}
		return func(e *encoder, p unsafe.Pointer) {
			for _, f := range fields {
				(*f.f)(e, unsafe.Add(p, f.off))
			}
		}
	case reflect.Array:
		elem := encoderOf(t.Elem())
		return func(e *encoder, p unsafe.Pointer) {
			for i := range t.Len() {
				(*elem)(e, unsafe.Add(p, uintptr(i)*t.Elem().Size()))
			}
		}
	case reflect.Slice:
		elem := encoderOf(t.Elem())
		return func(e *encoder, p unsafe.Pointer) {
			v := reflect.NewAt(t, p).Elem()
			e.out = binary.AppendUvarint(e.out, uint64(v.Len()))
			for i := range v.Len() {
				(*elem)(e, unsafe.Add(v.UnsafePointer(), uintptr(i)*t.Elem().Size()))
			}
		}
	case reflect.Map:
		return mapEncoder(t)
	case reflect.Interface:
		return func(e *encoder, p unsafe.Pointer) {
			if v := reflect.NewAt(t, p).Elem(); !v.IsNil() {
				e.encodePointer(encoderOf(v.Elem().Type().Elem()), v.Elem().UnsafePointer())
			}
		}
	case reflect.String:
		return func(e *encoder, p unsafe.Pointer) {
			s := *(*string)(p)
			e.out = append(binary.AppendUvarint(e.out, uint64(len(s))), s...)
		}
	}
	if t == reflect.TypeFor[time.Duration]() {
		const horizon = 2 * modelLease // all greater ages are equal
		return func(e *encoder, p unsafe.Pointer) {
			ago := min(e.now-*(*time.Duration)(p), horizon) / time.Millisecond
			e.out = append(e.out, byte(ago), byte(ago>>8))
		}
	}
	size := t.Size()
	return func(e *encoder, p unsafe.Pointer) { e.out = append(e.out, unsafe.Slice((*byte)(p), size)...) }
}

func (e *encoder) encodePointer(elem *encodeFunc, p unsafe.Pointer) {
	i := slices.Index(e.met, p)
	if p == nil || i >= 0 {
		e.out = append(e.out, byte(i+2)) // 1 for nil; fewer than 250 pointers are visited
		return
	}
	e.met = append(e.met, p)
	e.out = append(e.out, 0)
	(*elem)(e, p)
}

func mapEncoder(t reflect.Type) encodeFunc {
	key, elem := encoderOf(t.Key()), encoderOf(t.Elem())
	return func(e *encoder, p unsafe.Pointer) {
		m := reflect.NewAt(t, p).Elem()
		type entry struct {
			key   []byte
			value reflect.Value
		}
		var entries []entry
		for it := m.MapRange(); it.Next(); {
			k, v := reflect.New(t.Key()), reflect.New(t.Elem())
			k.Elem().Set(it.Key())
			v.Elem().Set(it.Value())
			var own encoder
			(*key)(&own, k.UnsafePointer())
			entries = append(entries, entry{own.out, v})
		}
		slices.SortFunc(entries, func(a, b entry) int { return bytes.Compare(a.key, b.key) })
		e.out = binary.AppendUvarint(e.out, uint64(len(entries)))
		for _, x := range entries {
			e.out = append(e.out, x.key...)
			(*elem)(e, x.value.UnsafePointer())
		}
	}
}
