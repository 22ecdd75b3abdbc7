from pleroma.content.range import Range, complement, join


def test_a_range_holds_its_low_end_and_not_its_high_end():
    part = Range(2, 5)
    assert [key for key in range(8) if key in part] == [2, 3, 4]


def test_ranges_of_text_compare_by_bytes():
    assert b"ab" in Range(b"a", b"b")
    assert b"b" not in Range(b"a", b"b")


def test_covers_includes_equal_ranges_and_shared_ends():
    assert Range(0, 5).covers(Range(0, 5))
    assert Range(0, 5).covers(Range(3, 5))
    assert not Range(0, 5).covers(Range(3, 6))
    assert not Range(1, 5).covers(Range(0, 2))


def test_ranges_that_touch_have_nothing_in_common():
    assert Range(0, 5).meet(Range(5, 9)) is None
    assert Range(0, 5).meet(Range(4, 9)) == Range(4, 5)
    assert Range(0, 9).meet(Range(2, 3)) == Range(2, 3)


def test_join_merges_what_overlaps_or_touches_and_drops_what_is_empty():
    assert join([Range(5, 7), Range(0, 2), Range(2, 3), Range(6, 9), Range(4, 4)]) == (Range(0, 3), Range(5, 9))
    assert join([Range(0, 9), Range(2, 3)]) == (Range(0, 9),)
    assert join([Range(3, 2)]) == ()
    assert join([]) == ()


def test_complement_leaves_the_gaps():
    assert complement((Range(1, 2), Range(4, 6)), Range(0, 8)) == (Range(0, 1), Range(2, 4), Range(6, 8))
    assert complement((Range(0, 8),), Range(0, 8)) == ()
    assert complement((), Range(0, 8)) == (Range(0, 8),)
