use super::*;
use crate::splice::Edits;

const TYPE: &[u8] = b"multipart/form-data; boundary=xYz";

/// A form of parts as (head lines, content).
fn form(parts: &[(&str, &str)]) -> String {
    let mut body = String::new();
    for (head, content) in parts {
        body += &format!("--xYz\r\n{head}\r\n\r\n{content}\r\n");
    }
    body + "--xYz--\r\n"
}

fn field(name: &str, value: &str) -> String {
    form(&[(&format!("Content-Disposition: form-data; {name}"), value)])
}

fn model(body: &str) -> Option<&str> {
    let peek = peek_form(TYPE, body.as_bytes(), &[]).unwrap_or_else(|e| panic!("{e}: {body:?}"));
    peek.model.map(|value| &body[value.span().clone()])
}

fn refusal(body: &str) -> FormError {
    peek_form(TYPE, body.as_bytes(), &[]).expect_err(body)
}

#[test]
fn a_transcription_form_as_the_sdk_sends_it() {
    let body = form(&[
        ("Content-Disposition: form-data; name=\"model\"", "whisper-1"),
        ("Content-Disposition: form-data; name=\"stream\"", "True"),
        ("Content-Disposition: form-data; name=\"prompt\"", "Names: Ann"),
        (
            "Content-Disposition: form-data; name=\"file\"; filename=\"a.wav\"\r\nContent-Type: audio/wav",
            "RIFF\r\n\0--xY\r\n--x\r\n--\n",
        ),
    ]);
    let peek = peek_form(TYPE, body.as_bytes(), &[]).expect("a form");
    assert_eq!(peek.model.map(|m| &body[m.span().clone()]), Some("whisper-1"));
    assert_eq!((peek.stream, peek.text_bytes, peek.media_parts), (true, 10, 1));
}

#[test]
fn the_name_is_found_in_every_way_of_writing_it() {
    for disposition in [
        "Content-Disposition: form-data; name=\"model\"",
        "content-disposition:form-data;name=model",
        "CONTENT-DISPOSITION:   Form-Data ;  NAME=\"model\" ; x=y",
        "Content-Type: text/plain; charset=UTF-8\r\nContent-Disposition: form-data; name=model",
        "Content-Disposition: form-data; x=\"a;b\\\"c\"; name=\"model\"\r\nContent-Transfer-Encoding: 8bit",
        "Content-Disposition: form-data; ; name=\"model\";",
    ] {
        assert_eq!(model(&form(&[(disposition, "m1")])), Some("m1"), "{disposition}");
    }
    for other in [
        "name=\"Model\"",
        "name=\"model \"",
        "name=model[]",
        "name=\"\"",
        "name=\"file\"; filename=\"model\"",
    ] {
        assert_eq!(model(&field(other, "m1")), None, "{other}");
    }
}

#[test]
fn content_is_taken_as_it_stands() {
    for content in ["", " m ", "a\r\nb", "--xYz", "m\r\n", "\r\n", "x--xYz--", "汉"] {
        let body = field("name=model", content);
        // A boundary at the very start of the content would be on a line of its own.
        if content.starts_with("--xYz") {
            assert!(matches!(refusal(&body), FormError::Syntax { .. }));
        } else {
            assert_eq!(model(&body), Some(content));
        }
    }
}

#[test]
fn framing_that_two_readers_could_split_differently_is_refused() {
    let good = field("name=model", "m1");
    let part = "--xYz\r\nContent-Disposition: form-data; name=model\r\n\r\nm2\r\n";
    for (body, what) in [
        (String::new(), "no boundary"),
        ("preamble\r\n".to_owned() + &good, "no boundary"),
        ("\n".to_owned() + &good, "no boundary"),
        (good.replace("--xYz--\r\n", ""), "the closing boundary is missing"),
        (good.replace("--xYz--", "--xYz-"), "a boundary line that goes on"),
        (good.replacen("--xYz\r\n", "--xYz\n", 1), "a boundary line that goes on"),
        (good.replacen("--xYz\r\n", "--xYzz\r\n", 1), "a boundary line that goes on"),
        (good.replace("\r\n--xYz--", "\n--xYz--"), "a boundary that is not on a line of its own"),
        (good.replace("\r\n--xYz--", "\r--xYz--"), "a boundary that is not on a line of its own"),
        (good.clone() + part, "a boundary behind the closing one"),
        (good.clone() + "\n" + part, "a boundary behind the closing one"),
        (good.replace("--xYz--", "--xYz--x"), "a boundary line that goes on"),
        (good.replace("\r\n\r\n", "\n\n"), "a part's head without an end (8 KiB at the most)"),
        (good.replace("; name", ";\r\n name"), "a malformed field of a part"),
        (good.replace("; name", "\nX: ; name"), "a malformed field of a part"),
        (good.replace("Content-Disposition", "Content-Disposition "), "a malformed field of a part"),
        (good.replace("Content-Disposition", "X-Other"), "a part without Content-Disposition"),
        (good.replace("form-data", "attachment"), "a Content-Disposition other than form-data"),
        (
            good.replace("name=model", "name=model\r\ncontent-disposition: form-data; name=x"),
            "a second Content-Disposition",
        ),
        (good.replace("name=model", "filename=model"), "a part without a name"),
    ] {
        assert!(
            matches!(refusal(&body), FormError::Syntax { what: w, .. } if w == what),
            "{body:?}: {}",
            refusal(&body)
        );
    }
    // Blanks behind a boundary, empty lines ahead of it, and text behind the end are RFC 2046's.
    for body in [
        "\r\n".to_owned() + &good,
        good.replace("--xYz\r\n", "--xYz \t\r\n"),
        good.clone() + "bye --xYz",
        good.trim_end().to_owned(),
    ] {
        assert_eq!(model(&body), Some("m1"), "{body:?}");
    }
}

#[test]
fn names_that_two_readers_could_take_differently_are_refused() {
    for disposition in [
        "name=\"mod\\el\"",
        "name=\"model\"; name=\"x\"",
        "name*=UTF-8''model",
        "name*0=mod; name*1=el",
        "name=x; filename=\"; name=model\"",
        "name=x; filename=\"\\\"; name=\\\"model\"",
        "name=x; filename=\"a;NAME*=b\"",
        "name = model",
        "name=\"model",
        "name=\"model\"x",
        "name",
        "=model",
        "name=",
        "name=mo\"del",
        "name=mo del",
    ] {
        assert!(matches!(refusal(&field(disposition, "m1")), FormError::Syntax { .. }), "{disposition}");
    }
}

#[test]
fn a_doubled_or_coded_model_is_refused() {
    let one = "Content-Disposition: form-data; name=model";
    assert!(matches!(refusal(&form(&[(one, "a"), (one, "a")])), FormError::Doubled { name: "model", .. }));
    let stream = "Content-Disposition: form-data; name=stream";
    assert!(matches!(
        refusal(&form(&[(stream, "1"), (stream, "0")])),
        FormError::Doubled { name: "stream", .. }
    ));
    for line in [
        "Content-Transfer-Encoding: base64",
        "Content-Type: text/plain; charset=utf-16",
        "Content-Type: x; charset",
        "Content-Type: text/plain; charset*=utf-8''utf-16",
        "Content-Type: text/plain; charset*0=utf-; charset*1=16",
    ] {
        let head = format!("{one}\r\n{line}");
        assert!(matches!(refusal(&form(&[(&head, "bTE=")])), FormError::Syntax { .. }), "{line}");
    }
    // Of a file that is the engine's business.
    let file = "Content-Disposition: form-data; name=file; filename=f\r\nContent-Transfer-Encoding: base64";
    assert_eq!(model(&form(&[(file, "AAAA"), (one, "m1")])), Some("m1"));
}

#[test]
fn the_content_type_has_to_name_one_boundary() {
    let body = field("name=model", "m1");
    for (kind, fine) in [
        ("multipart/form-data; boundary=xYz", true),
        ("Multipart/Form-Data ; charset=utf-8 ; BOUNDARY=\"xYz\"", true),
        ("multipart/form-data", false),
        ("multipart/form-data; boundary=", false),
        ("multipart/form-data; boundary=\"\"", false),
        ("multipart/form-data; boundary=xYz; boundary=xYz", false),
        ("multipart/form-data; boundary=x\"Yz", false),
        ("multipart/form-data; boundary=\"xYz", false),
        ("multipart/form-data; boundary=\"xYz \"", false),
        ("multipart/form-data; boundary=\"x\\Yz\"", false),
        ("multipart/form-data; boundary=xYz; charset=utf-16", false),
        // RFC 2231: a reader that puts pieces together, or decodes them, finds another boundary.
        ("multipart/form-data; boundary=xYz; boundary*=utf-8''aBc", false),
        ("multipart/form-data; boundary=xYz; boundary*0=aBc", false),
        ("multipart/form-data; Boundary*0=aB; boundary*1=c; boundary=xYz", false),
        ("multipart/form-data; boundary*0*=a; boundary=xYz", false),
        ("multipart/form-data; boundary=xYz; charset*=utf-8''utf-16", false),
    ] {
        let read = peek_form(kind.as_bytes(), body.as_bytes(), &[]);
        assert_eq!(read.is_ok(), fine, "{kind}");
        assert!(fine || matches!(read, Err(FormError::ContentType(_))), "{kind}");
    }
    let long = "b".repeat(MAX_BOUNDARY);
    for (boundary, fine) in [(long.clone(), true), (long + "b", false)] {
        let kind = format!("multipart/form-data; boundary={boundary}");
        assert_eq!(peek_form(kind.as_bytes(), body.replace("xYz", &boundary).as_bytes(), &[]).is_ok(), fine);
    }
    for (kind, form) in [
        ("multipart/form-data", true),
        ("MULTIPART/form-data;x", true),
        ("multipart/mixed", false),
        ("application/json", false),
    ] {
        assert_eq!(is_form(kind.as_bytes()), form, "{kind}");
    }
}

#[test]
fn bounds_hold() {
    let head = |n: usize| format!("Content-Disposition: form-data; name=model; x={}", "y".repeat(n));
    let fixed = head(0).len() + 4;
    assert_eq!(model(&form(&[(&head(MAX_PART_HEAD - fixed), "m")])), Some("m"));
    assert!(matches!(refusal(&form(&[(&head(MAX_PART_HEAD - fixed + 1), "m")])), FormError::Syntax { .. }));
    let part = ("Content-Disposition: form-data; name=x", "");
    assert_eq!(model(&form(&vec![part; MAX_PARTS - 1])), None);
    assert!(matches!(
        refusal(&form(&vec![part; MAX_PARTS + 1])),
        FormError::Syntax { what: "more than 1000 parts", .. }
    ));
}

#[test]
fn a_renamed_model_changes_its_part_and_nothing_else() {
    let body = field("name=\"model\"", "whisper-1");
    let peek = peek_form(TYPE, body.as_bytes(), &[]).expect("a form");
    let edits = Edits::new(&peek, Some("org/whisper \"large\""), true);
    let sent = edits.slices(body.as_bytes()).concat();
    assert_eq!(sent, body.replace("whisper-1", "org/whisper \"large\"").into_bytes());
    assert_eq!(edits.len(body.len()), sent.len());
}

#[test]
fn session_keys_are_text_parts_of_the_wanted_names() {
    let names = ["a", "b", "model"];
    // The part's head, its content, and the name that is found with its value.
    type Row = (&'static str, &'static str, Option<(usize, &'static str)>);
    let rows: [Row; 9] = [
        ("name=\"a\"", "s-1", Some((0, "s-1"))),
        ("name=b\r\nContent-Type: text/plain", " 汉\r\n ", Some((1, " 汉\r\n "))),
        ("name=model", "m1", Some((2, "m1"))),
        ("name=A", "s-1", None),
        ("name=other", "s-1", None),
        ("name=a", "", None),
        ("name=a", " \r\n\t", None),
        ("name=a; filename=f", "s-1", None),
        ("name=a\r\nContent-Transfer-Encoding: base64", "cy0x", None),
    ];
    for (head, content, found) in rows {
        let body = field(head, content);
        let peek = peek_form(TYPE, body.as_bytes(), &names).expect("a form");
        let read: Vec<_> = peek.session.iter().map(|(at, span)| (*at, &body[span.clone()])).collect();
        assert_eq!(read, found.into_iter().collect::<Vec<_>>(), "{head}");
    }
    for second in ["s-2", ""] {
        let part = "Content-Disposition: form-data; name=b";
        let twice = form(&[(part, "s-1"), (part, second)]);
        assert!(matches!(
            peek_form(TYPE, twice.as_bytes(), &names),
            Err(FormError::Syntax { what: "a session key that is given twice", .. })
        ));
        assert!(peek_form(TYPE, twice.as_bytes(), &["a"]).is_ok(), "nobody asks for it");
    }
}

#[test]
fn every_cut_of_a_form_is_refused() {
    let body = form(&[
        ("Content-Disposition: form-data; name=\"file\"; filename=\"f\"", "\r\n--xY\r\n"),
        ("Content-Disposition: form-data; name=\"model\"", "m1"),
    ]);
    for cut in 0..body.len() - 2 {
        assert!(peek_form(TYPE, &body.as_bytes()[..cut], &[]).is_err(), "cut at {cut}");
    }
}

proptest::proptest! {
    #[test]
    fn any_parts_are_found_again(contents in proptest::collection::vec("[-xYz\r\n\"; a-c]{0,24}", 0..6), at in 0usize..6) {
        let parts: Vec<_> = contents.iter().enumerate().map(|(i, content)| {
            let name = if i == at { "model".to_owned() } else { format!("p{i}") };
            (format!("Content-Disposition: form-data; name=\"{name}\""), content.as_str())
        }).collect();
        let parts: Vec<_> = parts.iter().map(|(head, content)| (head.as_str(), *content)).collect();
        let body = form(&parts);
        let clean = !contents.iter().any(|content| content.contains("--xYz"));
        let mut data = TYPE.to_vec();
        data.push(b'\n');
        data.extend_from_slice(body.as_bytes());
        crate::fuzz_form::multipart(&data);
        if clean {
            proptest::prop_assert_eq!(model(&body), contents.get(at).map(String::as_str));
        }
    }

    #[test]
    fn no_bytes_make_it_panic_or_disagree(
        bytes in proptest::collection::vec(0usize..40, 0..40),
    ) {
        // Pieces that matter, in any order.
        const PIECES: [&str; 20] = [
            "--xYz", "--", "\r\n", "\n", "\r", "Content-Disposition: form-data", ";", "name", "=", "\"", "model", "\\",
            "filename", " ", ":", "m1", "\r\n\r\n", "stream", "--xYz\r\nContent-Disposition: form-data; name=", "*",
        ];
        let mut data = TYPE.to_vec();
        data.push(b'\n');
        data.extend_from_slice(b"--xYz\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\nm\r\n");
        for piece in bytes {
            data.extend_from_slice(PIECES[piece % PIECES.len()].as_bytes());
        }
        data.extend_from_slice(b"\r\n--xYz--\r\n");
        crate::fuzz_form::multipart(&data);
    }
}
